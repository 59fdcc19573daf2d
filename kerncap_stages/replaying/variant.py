"""Whether a variant can stand in for the captured kernel: same architecture, same arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.code_object import read_code_object
from kerncap_stages.errors import ArtifactError, Refused, UsageError
from kerncap_stages.offload_bundle import code_object_for

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kerncap_stages.kernel_facts import KernelFacts
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import KernargSlot

_HOSTCALL = "hidden_hostcall_buffer"
_HEAP = "hidden_heap_v1"
_WHAT_TO_GIVE = "a code object: what `make recompile` or `hipcc --genco --offload-arch=…` makes"


def read_variant(path: Path, capture: Capture) -> KernelFacts:
    """Read the variant of the captured kernel from a code object, or from an offload bundle that holds one.

    Raises UsageError for no code object, Refused for another architecture or other arguments, ArtifactError
    when it does not hold the kernel.
    """
    try:
        facts = read_code_object(code_object_for(path.read_bytes(), capture.kernel.code_object.isa))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint=_WHAT_TO_GIVE) from error
    except ArtifactError as error:
        raise UsageError(f"{path}: {error}", hint=_WHAT_TO_GIVE) from error
    captured = capture.kernel.code_object.isa
    if architecture(facts.isa) != architecture(captured):
        raise Refused(
            f"{path} is for {architecture(facts.isa)}, and the capture is of a {architecture(captured)}",
            hint=f"compile it with --offload-arch={architecture(captured)}",
        )
    name = capture.kernel.mangled_name
    kernel = facts.kernel(name)
    if kernel is None:
        known = ", ".join(sorted(facts.kernels)[:5]) or "none"
        raise ArtifactError(
            f"{path} has no kernel {name}; its kernels: {known}",
            hint="a variant has to keep the kernel's name and signature",
        )
    ours, theirs = _explicit(capture.kernel.slots), _explicit(kernel.slots)
    if ours != theirs:
        raise Refused(
            f"{path}: {name} takes {len(theirs)} arguments of {_total(theirs)} bytes, the captured kernel "
            f"{len(ours)} of {_total(ours)}",
            hint="a variant has to keep the kernel's signature",
        )
    return kernel


def loadable(path: Path, capture: Capture, folder: Path) -> Path:
    """The file to load: the variant, or what it holds for the captured GPU, put into a folder."""
    given = path.read_bytes()
    code = code_object_for(given, capture.kernel.code_object.isa)
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
        region.base_address
        for region in capture.regions
        for pointer in pointers
        if region.base_address <= pointer < region.base_address + region.size_bytes
    )


def architecture(isa: str) -> str:
    """``gfx90a`` of ``amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-``."""
    return isa.rpartition("--")[2].partition(":")[0] or isa


def _explicit(slots: Iterable[KernargSlot]) -> list[tuple[int, int]]:
    return [(slot.offset_bytes, slot.size_bytes) for slot in slots if not slot.is_hidden]


def _total(slots: list[tuple[int, int]]) -> int:
    return max((offset + size for offset, size in slots), default=0)
