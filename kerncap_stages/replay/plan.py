"""Writes the plan that a native replayer follows; its grammar is in ``native/replay/plan.hpp``."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.code.code_object import list_data_symbols
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.kernel import CARVEOUT, CONTEXT_LIMITS, LAUNCH_ATTRIBUTES
from kerncap_stages.manifests.memory import ON_HOST_FLAG, READ_MOSTLY_FLAG, ModuleVariable
from kerncap_stages.replay.variant import find_runtime_regions
from kerncap_stages.store.chunks import CAPTURE_AGAIN, read_chunk_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.code.kernel_facts import KernelFacts
    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import KernargSlot
    from kerncap_stages.manifests.memory import LoadedCodeObject, Region
    from kerncap_stages.replay.variant_shape import VariantShape
    from kerncap_stages.store import Store
    from kerncap_stages.store.chunks import ChunkList

VERSION_LINE = "kcplan 2"
_READ_ONLY = 1
# The attributes of a CUDA launch that a replay repeats. Clusters and cooperative launches have lines of their
# own. Events, and attributes that code on the device can change, do not matter to a kernel that runs alone.
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


@dataclass(frozen=True)
class PlanFiles:
    """The files of the code objects to load, and the device that replaces each captured one."""

    baseline: Path
    variant: Path | None = None
    variant_kernel: KernelFacts | None = None
    devices: Mapping[int, int] = field(default_factory=dict)
    lines: tuple[str, ...] = ()  # further lines of the plan, for the back end
    # Further states to run from: the regions, by base address, that are not as captured.
    states: tuple[Mapping[int, MemoryRef], ...] = ()
    shape: VariantShape | None = None  # of the variant
    # In guarded runs, which are wanted unless it is None: what can be written beside the captured write set.
    opened: tuple[tuple[int, int], ...] | None = None
    guarded_states: frozenset[int] = frozenset()  # numbers of the states with a guarded run
    verified: frozenset[MemoryRef] = frozenset()  # was hashed before, and need not be hashed again
    # Seeds of the order in which the device takes waves from these states, by their numbers.
    state_orders: Mapping[int, int] = field(default_factory=dict)


def write_plan(store: Store, capture: Capture, files: PlanFiles, path: Path) -> None:
    """Write the plan of a capture.

    Raises ArtifactError for a name with a line break, and all errors of reading the store.
    """
    lines = [
        VERSION_LINE,
        *_write_head(store, capture, files),
        *_write_memories(store, capture, files),
    ]
    not_compared = find_runtime_regions(capture)
    regions = [
        region.model_copy(update={"post": None, "written": None})
        if region.base_address in not_compared
        else region
        for region in capture.regions
        if region.pre is not None
    ]
    for index, region in enumerate(regions):
        lines.append(_write_region(capture, region))
        lines += [f"written {index} {offset} {length}" for offset, length in region.written or ()]
    lines += _write_states(regions, files)
    if files.opened is not None:
        lines += ["guard", *(f"open {begin:#x} {end - begin}" for begin, end in files.opened)]
    lines += [
        f"variable {variable.address:#x} {variable.size_bytes} "
        f"{_write_digest(variable.pre)} {_write_digest(variable.post)} {variable.symbol}"
        for variable in capture.module_variables
        if variable.code_object == capture.code_digest
    ]
    lines += _write_static_variables(store, capture)
    lines += files.lines
    bad = next((line for line in lines if "\n" in line), None)
    if bad is not None:
        raise ArtifactError(f"a name with a line break cannot be replayed: {bad!r}", hint=CAPTURE_AGAIN)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")


def escape_path(path: Path) -> str:
    """Escape a path for a line of the plan: its name may contain line breaks."""
    return str(path).replace("\\", "\\\\").replace("\n", "\\n")


def _write_head(store: Store, capture: Capture, files: PlanFiles) -> Iterator[str]:
    kernel, launch = capture.kernel, capture.launch
    device = capture.device
    yield f"store {escape_path(store.root)}"
    yield f"code baseline {escape_path(files.baseline)}"
    if files.variant is not None:
        yield f"code variant {escape_path(files.variant)}"
    yield f"symbol {kernel.mangled_name}"
    yield f"isa {device.isa}"
    yield f"software {int(device.software)}"
    for captured, actual in files.devices.items():
        yield f"device {captured} {actual}"
    yield f"kernel_device {capture.dispatch.device_index}"
    yield "grid " + " ".join(map(str, launch.grid_work_items))
    yield "block " + " ".join(map(str, launch.block_work_items))
    yield f"lds {launch.static_lds_bytes} {launch.dynamic_lds_bytes}"
    if files.variant is not None and files.shape is not None:
        grid, block, lds_bytes = files.shape.resolve(launch)
        yield "variant_shape " + " ".join(map(str, (*grid, *block, lds_bytes)))
    yield f"private {launch.private_segment_bytes}"
    if launch.cluster_blocks is not None:
        yield "cluster " + " ".join(map(str, launch.cluster_blocks))
    yield f"cooperative {int(launch.is_cooperative)}"
    yield from _write_launch_attributes(launch.attributes)
    yield f"kernarg {capture.kernarg or '-'}"
    yield from (f"argument {slot.offset_bytes}" for slot in kernel.slots if not slot.is_hidden)
    yield from _write_hidden_slots("baseline", kernel.slots)
    if files.variant_kernel is not None:
        yield f"variant_symbol {files.variant_kernel.symbol}"
        yield f"variant_kernarg {files.variant_kernel.kernarg_size_bytes}"
        yield from _write_hidden_slots("variant", files.variant_kernel.slots)
    own = find_own_code(capture)
    if own is not None:
        yield f"loaded {own.load_address:#x} {own.load_size_bytes}"


def _write_launch_attributes(attributes: Mapping[str, str]) -> Iterator[str]:
    """Yield lines for the limits of a CUDA context and for the attributes that a replay repeats."""
    for name in CONTEXT_LIMITS:
        if name in attributes:
            yield f"limit {name} {attributes[name]}"
    if int(attributes.get(CARVEOUT, -1)) >= 0:
        yield f"carveout {attributes[CARVEOUT]}"
    for number, name in LAUNCH_ATTRIBUTES.items():
        if name in _REPEATED and name in attributes:
            if not _HEX.fullmatch(attributes[name]):
                raise ArtifactError(f"launch attribute {name} does not have 64 bytes", hint=CAPTURE_AGAIN)
            yield f"attribute {number} {attributes[name]}"


def _write_hidden_slots(role: str, slots: Iterable[KernargSlot]) -> Iterator[str]:
    for slot in slots:
        if slot.is_hidden:
            yield f"slot {role} {slot.offset_bytes} {slot.size_bytes} {slot.value_kind}"


def find_own_code(capture: Capture) -> LoadedCodeObject | None:
    """Return where the kernel's code object was loaded on the kernel's device.

    None if it has no single address: of a cubin the capture knows the address of each variable.
    """
    for loaded in capture.loaded_code_objects:
        if (
            loaded.code_object == capture.code_digest
            and loaded.device_index == capture.dispatch.device_index
            and loaded.load_size_bytes
        ):
            return loaded
    return None


def _write_static_variables(store: Store, capture: Capture) -> Iterator[str]:
    """Yield lines for variables that the runtime does not list: their state is in the code object's region.

    The replayer needs them because a variant has these variables at other addresses.
    """
    own = find_own_code(capture)
    if own is None:
        return
    listed = {variable.symbol for variable in capture.module_variables}
    symbols = list_data_symbols(store.get_kept(capture.code_digest))
    names = Counter(symbol.name for symbol in symbols)
    for symbol in symbols:
        address = own.load_address + symbol.offset_bytes
        held = any(region.contains(address) for region in capture.regions if region.pre is not None)
        if held and symbol.name not in listed and names[symbol.name] == 1:
            yield f"variable {address:#x} {symbol.size_bytes} - - {symbol.name}"


def _write_states(regions: Sequence[Region], files: PlanFiles) -> Iterator[str]:
    index_of = {region.base_address: index for index, region in enumerate(regions)}
    for number, state in enumerate(files.states):
        yield "state guarded" if number in files.guarded_states else "state"
        if number in files.state_orders:
            yield f"order {files.state_orders[number]}"
        yield from (f"change {index_of[base]} {_write_digest(pre)}" for base, pre in state.items())


def _write_memories(store: Store, capture: Capture, files: PlanFiles) -> Iterator[str]:
    told: dict[MemoryRef, ChunkList] = {}
    parts: list[tuple[Region | ModuleVariable, list[MemoryRef | None]]] = [
        (region, [region.pre, region.post, *(state.get(region.base_address) for state in files.states)])
        for region in capture.regions
    ]
    parts += [(variable, [variable.pre, variable.post]) for variable in capture.module_variables]
    for part, named in parts:
        states = [state for state in named if state is not None]
        for state in states:
            if state not in told:
                memory = told[state] = read_chunk_list(store, state)
                yield f"memory {state.digest} {memory.size_bytes} {memory.chunk_size_bytes}"
                for chunk in memory.digests:
                    yield f"chunk {chunk or '-'}"
                if state in files.verified:
                    yield f"verified {state.digest}"
            _check_fit(part, state, told[state], told[states[0]])


def _check_fit(part: Region | ModuleVariable, state: MemoryRef, memory: ChunkList, first: ChunkList) -> None:
    """Raise ArtifactError for a memory that does not fit its region: a replay would write outside of it."""
    where = part.symbol if isinstance(part, ModuleVariable) else f"the region at {part.base_address:#x}"
    if memory.size_bytes != part.size_bytes:
        raise ArtifactError(
            f"memory {state.digest.short} has {memory.size_bytes} bytes, but {where}, whose state it is, has "
            f"{part.size_bytes}",
            hint=CAPTURE_AGAIN,
        )
    if memory.chunk_size_bytes != first.chunk_size_bytes:
        raise ArtifactError(
            f"memory {state.digest.short} has another chunk size than the other state of {where}",
            hint=CAPTURE_AGAIN,
        )


def _write_region(capture: Capture, region: Region) -> str:
    access = sum(1 << device for device in region.accessible_from)
    code = find_own_code(capture)
    own = code is not None and 0 <= region.base_address - code.load_address < code.load_size_bytes
    words = (
        f"{region.base_address:#x}",
        region.size_bytes,
        region.kind.value,
        "-" if region.device_index is None else region.device_index,
        f"{access:#x}",
        _encode_flags(region),
        f"{region.host_address or 0:#x}",
        region.alignment_bytes or 0,
        int(own),
        region.physical_piece,
        _write_digest(region.pre),
        _write_digest(region.post),
    )
    return "region " + " ".join(map(str, words))


def _encode_flags(region: Region) -> int:
    bits = {ON_HOST_FLAG: 1 << 1, READ_MOSTLY_FLAG: 1 << 2}
    return (_READ_ONLY if region.read_only else 0) | sum(bits.get(flag, 0) for flag in region.flags)


def _write_digest(state: MemoryRef | None) -> str:
    return "-" if state is None else state.digest
