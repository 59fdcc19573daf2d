"""Whether a variant can stand in for the captured kernel: same architecture, same arguments."""

from __future__ import annotations

import difflib
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from kerncap_stages._native import demangle
from kerncap_stages.code.architectures import runs_on
from kerncap_stages.code.cubin import is_relocatable
from kerncap_stages.code.kernel_facts import without_unit
from kerncap_stages.code.kernel_names import parse_kernel_name
from kerncap_stages.code.offload_bundle import code_object_for
from kerncap_stages.code.read import read_code_object
from kerncap_stages.code.targets import processor_of
from kerncap_stages.errors import ArtifactError, Refused, UsageError
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.manifests.kernel import CodeObjectFormat
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kerncap_stages.code.kernel_facts import CodeObjectFacts, KernelFacts
    from kerncap_stages.code.kernel_names import KernelName
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import KernargSlot

_HOSTCALL = "hidden_hostcall_buffer"
_HEAP = "hidden_heap_v1"
WHAT_TO_GIVE = {
    Backend.HSA: "a code object: what `make recompile` or `hipcc --genco --offload-arch=…` makes",
    Backend.CUDA: "a cubin, PTX or a fatbin: what `make recompile` or `nvcc -cubin -arch=…` makes",
}
_MOST_BYTES = 2 << 30
_MOST_NAMES = 5


def read_variant(path: Path, capture: Capture) -> KernelFacts:
    """Read the variant of the captured kernel from a code object, or from a bundle that holds one.

    Raises UsageError for no code object, Refused for another architecture or other arguments, ArtifactError
    when it does not hold the kernel.
    """
    backend = capture.environment.backend
    try:
        code = _code(path, capture)
        facts = read_code_object(code)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint=WHAT_TO_GIVE[backend]) from error
    except ArtifactError as error:
        raise UsageError(f"{path}: {error}", hint=WHAT_TO_GIVE[backend]) from error
    if backend is Backend.CUDA:
        _check_nvidia(path, code, facts, capture)
    else:
        _check_amd(path, facts, capture)
    name = capture.kernel.mangled_name
    kernel = facts.kernel(name)
    if kernel is None and (others := _overloads(facts, name)):
        raise Refused(
            f"{path} has {' and '.join(others[:_MOST_NAMES])}; the captured kernel is {demangle(name)}",
            hint="a variant has to keep the kernel's signature",
        )
    if kernel is None:
        raise ArtifactError(
            f"{path} has no kernel {name}; {_known(facts, name)}",
            hint="a variant has to keep the kernel's name and signature",
        )
    ours, theirs = _explicit(capture.kernel.slots), _explicit(kernel.slots)
    if ours != theirs:
        raise Refused(
            f"{path}: {name} takes {_described(theirs)}, the captured kernel {_described(ours)}",
            hint="a variant has to keep the kernel's signature",
        )
    return kernel


def _code(path: Path, capture: Capture) -> bytes:
    size_bytes = path.stat().st_size
    if size_bytes == 0:
        raise ArtifactError("it is empty")
    if size_bytes > _MOST_BYTES:
        raise ArtifactError(f"it has {size_bytes} bytes, and no code object has more than {_MOST_BYTES}")
    return variant_code(path.read_bytes(), capture)


def _check_amd(path: Path, facts: CodeObjectFacts, capture: Capture) -> None:
    captured = processor_of(capture.kernel.code_object.isa)
    if processor_of(facts.isa) != captured:
        raise Refused(
            f"{path} is for {processor_of(facts.isa)}, and the capture is of a {captured}",
            hint=f"compile it with --offload-arch={captured}",
        )


def _check_nvidia(path: Path, code: bytes, facts: CodeObjectFacts, capture: Capture) -> None:
    gpu = _target(capture)
    is_cubin = facts.format is CodeObjectFormat.CUBIN
    if facts.format not in (CodeObjectFormat.CUBIN, CodeObjectFormat.PTX):
        raise UsageError(f"{path} is no code for NVIDIA GPUs", hint=WHAT_TO_GIVE[Backend.CUDA])
    if not runs_on(facts.isa, gpu, is_ptx=not is_cubin):
        raise Refused(
            f"{path} is for {facts.isa}, and the capture is of a GPU of {gpu}",
            hint=f"compile it with -arch={gpu}",
        )
    if is_cubin and is_relocatable(code):
        raise Refused(
            f"{path} was compiled for separate linking (-rdc=true, -dc) and not linked",
            hint="leave -rdc=true out, or link it: nvcc -dlink -cubin",
        )


def _overloads(facts: CodeObjectFacts, name: str) -> list[str]:
    """Kernels of the wanted one's name that take something else: in C++ their symbols differ, too."""
    wanted = _without_parameters(name)
    return sorted(demangle(symbol) for symbol in facts.kernels if _without_parameters(symbol) == wanted)


def _without_parameters(symbol: str) -> KernelName:
    return replace(parse_kernel_name(demangle(without_unit(symbol))), parameters=())


def _known(facts: CodeObjectFacts, name: str) -> str:
    """Which kernels a code object has: those whose names are like the wanted one, if there are any."""
    like = difflib.get_close_matches(name, facts.kernels, _MOST_NAMES)
    if like:
        return f"kernels of like names: {', '.join(like)}"
    shown = ", ".join(sorted(facts.kernels)[:_MOST_NAMES]) or "none"
    more = len(facts.kernels) - _MOST_NAMES
    return f"its kernels: {shown}" + (f" and {more} more" if more > 0 else "")


def variant_code(data: bytes, capture: Capture) -> bytes:
    """What a variant's file holds for the captured GPU: all of it, unless it is a bundle or a fatbin."""
    return code_object_for(data, _target(capture))


def _target(capture: Capture) -> str:
    """What code has to be for: on NVIDIA's GPUs that of the captured kernel may be of an older one."""
    if capture.environment.backend is Backend.CUDA:
        return capture.device.isa
    return capture.kernel.code_object.isa


def loadable(path: Path, capture: Capture, folder: Path) -> Path:
    """The file to load: the variant, or what it holds for the captured GPU, put into a folder."""
    given = path.read_bytes()
    code = variant_code(given, capture)
    if code is given:
        return path.absolute()
    taken = folder / "variant.co"
    taken.write_bytes(code)
    return taken


def needs_host(slots: Iterable[KernargSlot]) -> bool:
    """Whether a kernel may call the host: printf, assert and the like, as far as its compiler knew."""
    return any(slot.value_kind == _HOSTCALL for slot in slots)


def uses_heap(slots: Iterable[KernargSlot]) -> bool:
    """Whether a kernel may allocate memory on the device, as far as its compiler knew."""
    return any(slot.value_kind == _HEAP for slot in slots)


def runtime_regions(capture: Capture) -> frozenset[int]:
    """Base addresses of memory in which kernels talk to the host, where the captured kernel may do so.

    What stands there depends on the runtime of the moment: HIP has its own again in a replay.
    """
    if not needs_host(capture.kernel.slots):
        return frozenset()
    kernarg = bytes.fromhex(capture.kernarg)
    pointers = [
        int.from_bytes(kernarg[slot.offset_bytes : slot.offset_bytes + slot.size_bytes], "little")
        for slot in capture.kernel.slots
        if slot.value_kind in (_HOSTCALL, _HEAP)
    ]
    return frozenset(
        region.base_address for region in capture.regions for pointer in pointers if region.contains(pointer)
    )


def why_unfit(kernel: KernelFacts, block_work_items: tuple[int, int, int]) -> str | None:
    """Why a kernel cannot be launched in blocks of that shape: HIP and CUDA refuse it; None: it can."""
    threads, most = prod(block_work_items), kernel.max_work_group_size
    required = kernel.required_work_group_size
    if required is not None and tuple(required) != tuple(block_work_items):
        wanted, had = formats.shape(required), formats.shape(block_work_items)
        return f"it needs blocks of {wanted} threads, and this launch has {had}"
    if most is not None and threads > most:
        return f"it allows {most} threads a block (__launch_bounds__), and this launch has {threads}"
    return None


def _explicit(slots: Iterable[KernargSlot]) -> list[tuple[int, int]]:
    return [(slot.offset_bytes, slot.size_bytes) for slot in slots if not slot.is_hidden]


def _described(slots: list[tuple[int, int]]) -> str:
    total = max((offset + size for offset, size in slots), default=0)
    each = ", ".join(f"{size} at {offset}" for offset, size in slots)
    return f"{formats.count(len(slots), 'argument')} of {formats.count(total, 'byte')}" + (
        f" ({each})" if each else ""
    )
