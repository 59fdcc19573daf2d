"""Reads a variant, and checks that it can replace the captured kernel: same architecture, same arguments."""

from __future__ import annotations

import difflib
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from kerncap_stages._native import demangle
from kerncap_stages.code.architectures import runs_on
from kerncap_stages.code.cubin import is_relocatable
from kerncap_stages.code.host_files import describe_host_file
from kerncap_stages.code.kernel_facts import strip_unit
from kerncap_stages.code.kernel_names import parse_kernel_name
from kerncap_stages.code.offload_bundle import extract_code_object
from kerncap_stages.code.read import read_code_object
from kerncap_stages.code.targets import find_processor
from kerncap_stages.errors import ArtifactError, Refused, UsageError
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.manifests.kernel import CodeObjectFormat
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kerncap_stages.code.kernel_facts import CodeObjectFacts, KernelFacts
    from kerncap_stages.code.kernel_names import KernelName
    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import KernargSlot

_HOSTCALL = "hidden_hostcall_buffer"
_HEAP = "hidden_heap_v1"
WHAT_TO_GIVE = {
    Backend.HSA: "a code object, as `make recompile` or `hipcc --genco --offload-arch=…` makes it",
    Backend.CUDA: "a cubin, PTX or a fatbin, as `make recompile` or `nvcc -cubin -arch=…` makes it",
}
_MAX_BYTES = 2 << 30
_MAX_NAMES = 5
_MAX_REMEMBERED_BYTES = 16 << 20


def read_variant(path: Path, capture: Capture) -> KernelFacts:
    """Read the variant of the captured kernel from a code object, or from a bundle that holds one.

    Raises UsageError if the file is not a code object, Refused for another architecture or other arguments,
    ArtifactError if it does not hold the kernel.
    """
    backend = capture.environment.backend
    try:
        code = _read_code(path, capture)
        facts = (_read_facts if len(code) <= _MAX_REMEMBERED_BYTES else read_code_object)(code)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint=f"give {WHAT_TO_GIVE[backend]}"
        ) from error
    except ArtifactError as error:
        what = describe_host_file(path)
        text = f"{path}: {error}" if what is None else f"{path} is {what}, not a code object"
        raise UsageError(text, hint=f"give {WHAT_TO_GIVE[backend]}") from error
    if backend is Backend.CUDA:
        _check_nvidia(path, code, facts, capture)
    else:
        _check_amd(path, facts, capture)
    name = capture.kernel.mangled_name
    kernel = facts.find_kernel(name)
    if kernel is None and (others := _find_overloads(facts, name)):
        raise Refused(
            f"{path} has {' and '.join(others[:_MAX_NAMES])}; the captured kernel is {demangle(name)}",
            hint="a variant must keep the kernel's signature",
        )
    if kernel is None:
        raise ArtifactError(
            f"{path} has no kernel {name}; {_list_kernels(facts, name)}",
            hint="a variant must keep the kernel's name and signature",
        )
    ours, theirs = _list_explicit(capture.kernel.slots), _list_explicit(kernel.slots)
    if ours != theirs:
        raise Refused(
            f"{path}: {name} takes {_describe_arguments(theirs)}, "
            f"the captured kernel {_describe_arguments(ours)}",
            hint="a variant must keep the kernel's signature",
        )
    return kernel


@lru_cache(maxsize=4)
def _read_facts(code: bytes) -> CodeObjectFacts:
    """Parse a code object. A verdict asks several times: to refuse it, and for each replay."""
    return read_code_object(code)


def _read_code(path: Path, capture: Capture) -> bytes:
    size_bytes = path.stat().st_size
    if size_bytes == 0:
        raise ArtifactError("it is empty")
    if size_bytes > _MAX_BYTES:
        raise ArtifactError(f"it has {size_bytes} bytes, but a code object has at most {_MAX_BYTES}")
    return extract_variant_code(path.read_bytes(), capture)


def _check_amd(path: Path, facts: CodeObjectFacts, capture: Capture) -> None:
    captured = find_processor(capture.kernel.code_object.isa)
    if find_processor(facts.isa) != captured:
        raise Refused(
            f"{path} is for {find_processor(facts.isa)}, but the capture is from a {captured}",
            hint=f"compile it with --offload-arch={captured}",
        )


def _check_nvidia(path: Path, code: bytes, facts: CodeObjectFacts, capture: Capture) -> None:
    gpu = choose_target(capture)
    is_cubin = facts.format is CodeObjectFormat.CUBIN
    if facts.format not in (CodeObjectFormat.CUBIN, CodeObjectFormat.PTX):
        raise UsageError(f"{path} is not code for NVIDIA GPUs", hint=f"give {WHAT_TO_GIVE[Backend.CUDA]}")
    if not runs_on(facts.isa, gpu, is_ptx=not is_cubin):
        raise Refused(
            f"{path} is for {facts.isa}, but the capture is from an {gpu} GPU",
            hint=f"compile it with -arch={gpu}",
        )
    if is_cubin and is_relocatable(code):
        raise Refused(
            f"{path} was compiled for linking (-rdc=true, -dc) and not linked",
            hint="compile it without -rdc=true, or link it: nvcc -dlink -cubin",
        )


def _find_overloads(facts: CodeObjectFacts, name: str) -> list[str]:
    """Return kernels with the wanted name and other parameters, which in C++ have other symbols."""
    wanted = _drop_parameters(name)
    return sorted(demangle(symbol) for symbol in facts.kernels if _drop_parameters(symbol) == wanted)


def _drop_parameters(symbol: str) -> KernelName:
    return replace(parse_kernel_name(demangle(strip_unit(symbol))), parameters=())


def _list_kernels(facts: CodeObjectFacts, name: str) -> str:
    """List a code object's kernels: only those with names similar to the wanted one, if there are any."""
    like = difflib.get_close_matches(name, facts.kernels, _MAX_NAMES)
    if like:
        return f"kernels with similar names: {', '.join(like)}"
    return f"its kernels: {formats.list_first(sorted(facts.kernels), _MAX_NAMES) or 'none'}"


def extract_variant_code(data: bytes, capture: Capture) -> bytes:
    """Return the code for the captured GPU in a variant's file: all of it unless it is a bundle or fatbin."""
    return extract_code_object(data, choose_target(capture))


def choose_target(capture: Capture | View) -> str:
    """Return the target that code must run on: for NVIDIA the GPU's, as the kernel's may be an older one."""
    if capture.environment.backend == Backend.CUDA:
        return str(capture.environment.devices[capture.dispatch.device_index].isa)
    return str(capture.kernel.code_object.isa)


def prepare_variant(path: Path, capture: Capture, folder: Path) -> Path:
    """Return the file to load: the variant, or its code for the captured GPU, written into a folder."""
    given = path.read_bytes()
    code = extract_variant_code(given, capture)
    if code is given:
        return path.absolute()
    taken = folder / "variant.co"
    taken.write_bytes(code)
    return taken


def needs_host(slots: Iterable[KernargSlot]) -> bool:
    """Whether a kernel may call the host, as printf and assert do, according to its compiler."""
    return any(slot.value_kind == _HOSTCALL for slot in slots)


def uses_heap(slots: Iterable[KernargSlot]) -> bool:
    """Whether a kernel may allocate memory on the device, according to its compiler."""
    return any(slot.value_kind == _HEAP for slot in slots)


def find_runtime_regions(capture: Capture) -> frozenset[int]:
    """Return base addresses of regions through which the kernel calls the host, if it may do so.

    Their contents depend on the runtime of the process: in a replay HIP allocates its own.
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


def explain_unfit(kernel: KernelFacts, block_work_items: tuple[int, int, int]) -> str | None:
    """Explain why HIP and CUDA refuse to launch a kernel in blocks of this shape; None if they do not."""
    threads, most = prod(block_work_items), kernel.max_work_group_size
    required = kernel.required_work_group_size
    if required is not None and tuple(required) != tuple(block_work_items):
        wanted, had = formats.format_shape(required), formats.format_shape(block_work_items)
        return f"it needs blocks of {wanted} threads, but this launch has {had}"
    if most is not None and threads > most:
        return f"it allows {most} threads in a block (__launch_bounds__), but this launch has {threads}"
    return None


def _list_explicit(slots: Iterable[KernargSlot]) -> list[tuple[int, int]]:
    return [(slot.offset_bytes, slot.size_bytes) for slot in slots if not slot.is_hidden]


def _describe_arguments(slots: list[tuple[int, int]]) -> str:
    total = max((offset + size for offset, size in slots), default=0)
    each = ", ".join(f"{size} at {offset}" for offset, size in slots)
    return f"{formats.count(len(slots), 'argument')} of {formats.count(total, 'byte')}" + (
        f" ({each})" if each else ""
    )
