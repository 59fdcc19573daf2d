"""Writes the plan that a native replayer follows; its grammar is in ``native/replay/plan.hpp``."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.code.code_object import data_symbols
from kerncap_stages.collect.launch_facts import LAUNCH_ATTRIBUTES
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.kernel import CARVEOUT, CONTEXT_LIMITS
from kerncap_stages.manifests.memory import ON_HOST_FLAG, READ_MOSTLY_FLAG, ModuleVariable
from kerncap_stages.replay.variant import runtime_regions
from kerncap_stages.store.chunks import read_chunk_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from kerncap_stages.code.kernel_facts import KernelFacts
    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import KernargSlot
    from kerncap_stages.manifests.memory import LoadedCodeObject, Region
    from kerncap_stages.store import Store
    from kerncap_stages.store.chunks import ChunkList

_READ_ONLY = 1
# Of the attributes of a CUDA launch. Clusters and cooperation have lines of their own; events and what can be
# changed from the device mean nothing to a kernel that runs alone.
_REPEATED = frozenset(
    {
        "access_policy_window",
        "cluster_scheduling_policy_preference",
        "programmatic_stream_serialization",
        "priority",
        "mem_sync_domain_map",
        "mem_sync_domain",
        "preferred_cluster_dimension",
        "preferred_shared_memory_carveout",
        "nvlink_util_centric_scheduling",
    }
)
_HEX = re.compile(r"[0-9a-f]{128}")
_CAPTURE_AGAIN = "no repair helps: capture the kernel again"


@dataclass(frozen=True)
class PlanFiles:
    """Where the code objects lie, and which device stands for which."""

    baseline: Path
    variant: Path | None = None
    variant_kernel: KernelFacts | None = None
    devices: Mapping[int, int] = field(default_factory=dict)
    lines: tuple[str, ...] = ()  # further ones, of the back end


def write_plan(store: Store, capture: Capture, files: PlanFiles, path: Path) -> None:
    """Write the plan of a capture.

    Raises ArtifactError for a name that the plan's lines cannot hold, and what reading the store raises.
    """
    lines = ["kcplan 2", *_head(store, capture, files), *_memories(store, capture)]
    not_compared = runtime_regions(capture)
    regions = [
        region.model_copy(update={"post": None, "written": None})
        if region.base_address in not_compared
        else region
        for region in capture.regions
        if region.pre is not None
    ]
    for index, region in enumerate(regions):
        lines.append(_region_line(capture, region))
        lines += [f"written {index} {offset} {length}" for offset, length in region.written or ()]
    lines += [
        f"variable {variable.address:#x} {variable.size_bytes} {_name(variable.pre)} {_name(variable.post)} "
        f"{variable.symbol}"
        for variable in capture.module_variables
        if variable.code_object == capture.code_digest
    ]
    lines += _static_variables(store, capture)
    lines += files.lines
    bad = next((line for line in lines if "\n" in line), None)
    if bad is not None:
        raise ArtifactError(f"a name with a line break cannot be replayed: {bad!r}", hint=_CAPTURE_AGAIN)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")


def path_text(path: Path) -> str:
    """A path in a line of the plan: it may have any name, with a line break, too."""
    return str(path).replace("\\", "\\\\").replace("\n", "\\n")


def _head(store: Store, capture: Capture, files: PlanFiles) -> Iterator[str]:
    kernel, launch = capture.kernel, capture.launch
    device = capture.device
    yield f"store {path_text(store.root)}"
    yield f"code baseline {path_text(files.baseline)}"
    if files.variant is not None:
        yield f"code variant {path_text(files.variant)}"
    yield f"symbol {kernel.mangled_name}"
    yield f"isa {device.isa}"
    yield f"software {int(device.software)}"
    for captured, actual in files.devices.items():
        yield f"device {captured} {actual}"
    yield f"kernel_device {capture.dispatch.device_index}"
    yield "grid " + " ".join(map(str, launch.grid_work_items))
    yield "block " + " ".join(map(str, launch.block_work_items))
    yield f"lds {launch.static_lds_bytes} {launch.dynamic_lds_bytes}"
    yield f"private {launch.private_segment_bytes}"
    if launch.cluster_blocks is not None:
        yield "cluster " + " ".join(map(str, launch.cluster_blocks))
    yield f"cooperative {int(launch.is_cooperative)}"
    yield from _launch_attributes(launch.attributes)
    yield f"kernarg {capture.kernarg or '-'}"
    yield from (f"argument {slot.offset_bytes}" for slot in kernel.slots if not slot.is_hidden)
    yield from _hidden_slots("baseline", kernel.slots)
    if files.variant_kernel is not None:
        yield f"variant_symbol {files.variant_kernel.symbol}"
        yield f"variant_kernarg {files.variant_kernel.kernarg_size_bytes}"
        yield from _hidden_slots("variant", files.variant_kernel.slots)
    own = own_code(capture)
    if own is not None:
        yield f"loaded {own.load_address:#x} {own.load_size_bytes}"


def _launch_attributes(attributes: Mapping[str, str]) -> Iterator[str]:
    """What a CUDA launch asked for besides, and the limits of its context, as far as it is repeated."""
    for name in CONTEXT_LIMITS:
        if name in attributes:
            yield f"limit {name} {attributes[name]}"
    if int(attributes.get(CARVEOUT, -1)) >= 0:
        yield f"carveout {attributes[CARVEOUT]}"
    for number, name in LAUNCH_ATTRIBUTES.items():
        if name in _REPEATED and name in attributes:
            if not _HEX.fullmatch(attributes[name]):
                raise ArtifactError(f"the launch attribute {name} is not of 64 bytes", hint=_CAPTURE_AGAIN)
            yield f"attribute {number} {attributes[name]}"


def _hidden_slots(role: str, slots: Iterable[KernargSlot]) -> Iterator[str]:
    for slot in slots:
        if slot.is_hidden:
            yield f"slot {role} {slot.offset_bytes} {slot.size_bytes} {slot.value_kind}"


def own_code(capture: Capture) -> LoadedCodeObject | None:
    """Where the kernel's code object was: it may have been loaded on other devices too.

    None where it has no address of its own: a cubin's variables are known one by one.
    """
    for loaded in capture.loaded_code_objects:
        if (
            loaded.code_object == capture.code_digest
            and loaded.device_index == capture.dispatch.device_index
            and loaded.load_size_bytes
        ):
            return loaded
    return None


def _static_variables(store: Store, capture: Capture) -> Iterator[str]:
    """Lines for data that the runtime does not list: a variant has it elsewhere; its region has its state."""
    own = own_code(capture)
    if own is None:
        return
    listed = {variable.symbol for variable in capture.module_variables}
    symbols = data_symbols(store.get(capture.code_digest))
    names = Counter(symbol.name for symbol in symbols)
    for symbol in symbols:
        address = own.load_address + symbol.offset_bytes
        held = any(region.contains(address) for region in capture.regions if region.pre is not None)
        if held and symbol.name not in listed and names[symbol.name] == 1:
            yield f"variable {address:#x} {symbol.size_bytes} - - {symbol.name}"


def _memories(store: Store, capture: Capture) -> Iterator[str]:
    told: dict[MemoryRef, ChunkList] = {}
    parts: tuple[Region | ModuleVariable, ...] = (*capture.regions, *capture.module_variables)
    for part in parts:
        states = [state for state in (part.pre, part.post) if state is not None]
        for state in states:
            if state not in told:
                memory = told[state] = read_chunk_list(store, state)
                yield f"memory {state.digest} {memory.size_bytes} {memory.chunk_size_bytes}"
                for chunk in memory.digests:
                    yield f"chunk {chunk or '-'}"
            _check_fit(part, state, told[state], told[states[0]])


def _check_fit(part: Region | ModuleVariable, state: MemoryRef, memory: ChunkList, first: ChunkList) -> None:
    """Memory of another size than its place would be restored beyond it."""
    where = part.symbol if isinstance(part, ModuleVariable) else f"the region at {part.base_address:#x}"
    if memory.size_bytes != part.size_bytes:
        raise ArtifactError(
            f"memory {state.digest.short} has {memory.size_bytes} bytes, and {where}, whose state it is said "
            f"to be, has {part.size_bytes}",
            hint=_CAPTURE_AGAIN,
        )
    if memory.chunk_size_bytes != first.chunk_size_bytes:
        raise ArtifactError(
            f"memory {state.digest.short} has chunks of another size than the other state of {where}",
            hint=_CAPTURE_AGAIN,
        )


def _region_line(capture: Capture, region: Region) -> str:
    access = sum(1 << device for device in region.accessible_from)
    code = own_code(capture)
    own = code is not None and 0 <= region.base_address - code.load_address < code.load_size_bytes
    words = (
        f"{region.base_address:#x}",
        region.size_bytes,
        region.kind.value,
        "-" if region.device_index is None else region.device_index,
        f"{access:#x}",
        _flags(region),
        f"{region.host_address or 0:#x}",
        region.alignment_bytes or 0,
        int(own),
        region.physical_piece,
        _name(region.pre),
        _name(region.post),
    )
    return "region " + " ".join(map(str, words))


def _flags(region: Region) -> int:
    bits = {ON_HOST_FLAG: 1 << 1, READ_MOSTLY_FLAG: 1 << 2}
    return (_READ_ONLY if region.read_only else 0) | sum(bits.get(flag, 0) for flag in region.flags)


def _name(state: MemoryRef | None) -> str:
    return "-" if state is None else state.digest
