"""The addresses that a kernel's arguments hold: how the argument's type is known, and who knows its layout.

A symbol spells types after templates and aliases were resolved, without layouts. The text of the source tells
those of plain structs (``structs``). The compiler tells all of them, in DWARF (``debug_types``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.code.element_types import element_type, pointee
from kerncap_stages.code.kernel_names import parse_kernel_name
from kerncap_stages.code.structs import Types
from kerncap_stages.errors import DeviceError
from kerncap_stages.locate.debug_types import read_arguments
from kerncap_stages.locate.trials import device_code
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.source import HeldAddress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.locate.wanted import Wanted
    from kerncap_stages.manifests.kernel import KernargSlot, Kernel

_POINTER_BYTES = 8
# Types are the same at every level. Without the last structs that are not constructed are only declared.
_DEBUG_FLAGS = ("-O0", "-g", "-fstandalone-debug")


def explicit_slots(kernel: Kernel) -> list[KernargSlot]:
    """The arguments that the program gave."""
    return [slot for slot in kernel.slots if not slot.is_hidden]


def argument_types(kernel: Kernel, written: Sequence[str]) -> tuple[str, ...]:
    """The type of each explicit argument, as it is spelled; empty where nothing tells it.

    written: of the parameters in the source.
    """
    count = len(explicit_slots(kernel))
    mangled = parse_kernel_name(kernel.demangled_name).parameters
    fitting = (types for types in (mangled, tuple(written)) if len(types) == count)
    return next(fitting, ("",) * count)


def is_known(slot: KernargSlot, type_text: str, types: Types) -> bool:
    """Whether the spelled type tells what the addresses in an argument lead to, as far as any type does."""
    target = pointee(type_text)
    if target is not None:
        return _is_told(target, types)
    if slot.value_kind != "by_value":
        return False
    if slot.size_bytes < _POINTER_BYTES or element_type(type_text) is not None:
        return True
    layout = types.layout(type_text)
    if layout is None or layout.size_bytes != slot.size_bytes:
        return False
    targets = (pointee(field.type_name) for field in layout.fields)
    return all(target is None or _is_told(target, types) for target in targets)


def _is_told(target: str, types: Types) -> bool:
    """Of ``void`` and of further addresses nothing more can be told."""
    return target == "void" or target.endswith(("*", "&")) or types.element_type(target) is not None


def held_addresses(code_object: bytes, kernel: Kernel, symbol: str) -> dict[int, tuple[HeldAddress, ...]]:
    """By argument, what a code object's DWARF says of it; left out where it says nothing that fits.

    symbol: of the kernel in this code object.
    """
    slots, told = explicit_slots(kernel), read_arguments(code_object, symbol)
    if len(slots) != len(told):
        return {}
    return {
        i: tuple(
            HeldAddress(
                argument=i,
                offset_bytes=held.offset_bytes,
                name=held.name,
                type_name=held.type_name,
                element_type=held.element_type,
            )
            for held in argument.pointers
        )
        for i, (slot, argument) in enumerate(zip(slots, told, strict=True))
        if argument.pointers is not None and argument.size_bytes == slot.size_bytes
    }


def compiled_addresses(
    kernel: Kernel,
    command: CompileCommand | None,
    wanted: Wanted,
    written: Sequence[str],
    read: Sequence[Path],
) -> tuple[HeldAddress, ...]:
    """Ask the compiler, where neither the captured code nor the files of the unit tell.

    read: the files of the unit, and what it includes. No compiler, and a unit that it refuses, tell nothing.
    """
    slots, spelled = explicit_slots(kernel), argument_types(kernel, written)
    if command is None or wanted.toolchain.language is not Language.HIP or not _may_hold(slots):
        return ()
    types = Types(list(_texts(read)))
    pairs = enumerate(zip(slots, spelled, strict=True))
    unknown = {i for i, (slot, text) in pairs if not is_known(slot, text, types)}
    if unknown:
        unknown -= held_addresses(wanted.code_object, kernel, kernel.mangled_name).keys()
    if not unknown:
        return ()
    try:
        flags = wanted.toolchain.flags(command, wanted.defines)
        code = device_code(command, wanted, (*flags, *_DEBUG_FLAGS))
    except DeviceError:
        return ()
    told = held_addresses(code or b"", kernel, wanted.alone)
    return tuple(held for i in sorted(unknown) for held in told.get(i, ()))


def _may_hold(slots: Sequence[KernargSlot]) -> bool:
    return any(slot.size_bytes >= _POINTER_BYTES for slot in slots)


def _texts(paths: Sequence[Path]) -> Iterator[bytes]:
    for path in paths:
        try:
            yield path.read_bytes()
        except OSError:
            continue
