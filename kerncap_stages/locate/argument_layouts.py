"""Finds the addresses that a kernel's arguments hold.

A symbol names the types after templates and aliases are resolved, but not their layouts. The source text
gives the layouts of plain structs (``structs``). The compiler gives all layouts, as DWARF (``debug_types``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.code.element_types import find_element_type, find_pointee
from kerncap_stages.code.kernel_names import parse_kernel_name
from kerncap_stages.code.structs import Types
from kerncap_stages.errors import DeviceError
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.source import HeldAddress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.locate.wanted import Wanted
    from kerncap_stages.manifests.kernel import KernargSlot, Kernel

_POINTER_BYTES = 8
# Types do not depend on the optimisation level. Without -fstandalone-debug, clang only declares structs that
# the unit does not construct.
_DEBUG_FLAGS = ("-O0", "-g", "-fstandalone-debug")


def list_explicit_slots(kernel: Kernel) -> list[KernargSlot]:
    """Return the slots of the arguments that the program passed."""
    return [slot for slot in kernel.slots if not slot.is_hidden]


def find_argument_types(kernel: Kernel, written: Sequence[str]) -> tuple[str, ...]:
    """Return the type of each explicit argument as text; empty if it is not known.

    written: the types of the parameters in the source.
    """
    count = len(list_explicit_slots(kernel))
    mangled = parse_kernel_name(kernel.demangled_name).parameters
    fitting = (types for types in (mangled, tuple(written)) if len(types) == count)
    return next(fitting, ("",) * count)


def is_known(slot: KernargSlot, type_text: str, types: Types) -> bool:
    """Whether the type's text suffices to know what the argument's addresses point to."""
    target = find_pointee(type_text)
    if target is not None:
        return _is_known_target(target, types)
    if slot.value_kind != "by_value":
        return False
    if slot.size_bytes < _POINTER_BYTES or find_element_type(type_text) is not None:
        return True
    layout = types.find_layout(type_text)
    if layout is None or layout.size_bytes != slot.size_bytes:
        return False
    targets = (find_pointee(field.type_name) for field in layout.fields)
    return all(target is None or _is_known_target(target, types) for target in targets)


def _is_known_target(target: str, types: Types) -> bool:
    """Whether the element type that ``find_pointee`` returned is known.

    For ``void`` and pointers, no type tells more.
    """
    return target == "void" or target.endswith(("*", "&")) or types.find_element_type(target) is not None


def read_held_addresses(
    code_object: bytes, kernel: Kernel, symbol: str
) -> dict[int, tuple[HeldAddress, ...]]:
    """Return the addresses in each argument, by its index, from a code object's DWARF.

    symbol: the kernel's symbol in this code object.
    Arguments that DWARF does not describe, or with another size, are left out.
    """
    # pyelftools takes longer to import than all else that a verdict needs of locating.
    from kerncap_stages.locate.debug_types import read_arguments

    slots, told = list_explicit_slots(kernel), read_arguments(code_object, symbol)
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


def find_held_addresses(
    kernel: Kernel,
    command: CompileCommand | None,
    wanted: Wanted,
    written: Sequence[str],
    read: Sequence[Path],
) -> tuple[HeldAddress, ...]:
    """Compile a unit to find addresses that neither the captured code nor the unit's text describes.

    read: the files of the unit, and the files that it includes.
    Returns nothing if there is no compiler, or if it refuses the unit.
    """
    slots, spelled = list_explicit_slots(kernel), find_argument_types(kernel, written)
    if command is None or wanted.toolchain.language is not Language.HIP or not _may_hold(slots):
        return ()
    types = Types(_read_texts(read))
    pairs = enumerate(zip(slots, spelled, strict=True))
    unknown = {i for i, (slot, text) in pairs if not is_known(slot, text, types)}
    if unknown:
        unknown -= read_held_addresses(wanted.code_object, kernel, kernel.mangled_name).keys()
    if not unknown:
        return ()
    # What compiles takes longer to import than the rest of this module, and verdicts compile nothing.
    from kerncap_stages.locate.trials import compile_device_code

    try:
        flags = wanted.toolchain.choose_flags(command, wanted.defines)
        code = compile_device_code(command, wanted, (*flags, *_DEBUG_FLAGS))
    except DeviceError:
        return ()
    told = read_held_addresses(code or b"", kernel, wanted.symbol_alone)
    return tuple(held for i in sorted(unknown) for held in told.get(i, ()))


def _may_hold(slots: Sequence[KernargSlot]) -> bool:
    return any(slot.size_bytes >= _POINTER_BYTES for slot in slots)


def _read_texts(paths: Sequence[Path]) -> Iterator[bytes]:
    for path in paths:
        try:
            yield path.read_bytes()
        except OSError:
            continue
