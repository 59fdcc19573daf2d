"""Reads the addresses in a kernel's arguments, and the types that they point to, from a code object's DWARF.

DWARF has what the symbol and the source text lack: members of base classes, template defaults, alignment.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.code.element_types import count_lanes, find_element_type
from kerncap_stages.code.elf import ELFFile
from kerncap_stages.code.elf_damage import convert_elf_errors
from kerncap_stages.code.file_format import FileFormat, find_format
from kerncap_stages.code.kernel_facts import is_same_but_for_unit
from kerncap_stages.code.structs import find_size
from kerncap_stages.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elftools.dwarf.die import DIE
    from elftools.dwarf.dwarfinfo import DWARFInfo

_MAX_DEBUG_BYTES = 64 << 20  # reading more takes minutes
_MAX_POINTERS = 4096  # in one argument: arrays of pointers are small
_MAX_STEPS = 100_000  # types and members that are visited for one argument
_MAX_DEPTH = 16
_NAMES = ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name", "DW_AT_name")
_POINTERS = ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")
_STRUCTS = ("DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type")
_TRANSPARENT = (
    *("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type"),
    *("DW_TAG_atomic_type", "DW_TAG_LLVM_annotation", "DW_TAG_template_alias"),
)


class _UnknownError(Exception):
    """A type without a known layout: it is only declared, or is laid out at run time."""


@dataclass(frozen=True)
class Held:
    """An address in an argument. ``name``: the argument and its members, such as ``a.out``."""

    offset_bytes: int
    name: str
    type_name: str
    element_type: str | None


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel. ``pointers`` is None if its layout is not known."""

    name: str
    size_bytes: int
    pointers: tuple[Held, ...] | None


def read_arguments(code_object: bytes, mangled_name: str) -> tuple[Argument, ...]:
    """Return a kernel's arguments in order; nothing if the code object has no DWARF for the kernel."""
    try:
        with convert_elf_errors(hint="compile it again"):
            elf = ELFFile(io.BytesIO(code_object))
            section = elf.get_section_by_name(".debug_info")
            if section is None or section.data_size > _MAX_DEBUG_BYTES:
                return ()
            # pyelftools does not know the relocations of cubins; nothing that is read here needs them.
            dwarf = elf.get_dwarf_info(
                relocate_dwarf_sections=find_format(code_object) is not FileFormat.CUBIN
            )
            kernel = _find_kernel(dwarf, mangled_name)
            if kernel is None:
                return ()
            parameters = (die for die in kernel.iter_children() if die.tag == "DW_TAG_formal_parameter")
            return tuple(_read_argument(die) for die in parameters)
    except ArtifactError:
        return ()  # DWARF is only a hint, and the file may come from anybody


def _find_kernel(dwarf: DWARFInfo, mangled_name: str) -> DIE | None:
    """Find the entry that defines a kernel: declarations have no address."""
    for unit in dwarf.iter_CUs():
        for die in unit.iter_DIEs():
            if die.tag != "DW_TAG_subprogram" or "DW_AT_low_pc" not in die.attributes:
                continue
            named = _find_named_entry(die)
            name = next((named.attributes[kind].value for kind in _NAMES if kind in named.attributes), None)
            if name is not None and is_same_but_for_unit(os.fsdecode(name), mangled_name):
                return die
    return None


def _find_named_entry(die: DIE) -> DIE:
    """Return the entry with the name: a definition or an inlined copy may refer to another entry for it."""
    for kind in ("DW_AT_abstract_origin", "DW_AT_specification"):
        if kind in die.attributes:
            return die.get_DIE_from_attribute(kind)
    return die


def _read_argument(die: DIE) -> Argument:
    named = _find_named_entry(die)
    name, kind = _read_name(named), _read_type(named)
    try:
        if kind is None:
            return Argument(name, 0, None)
        size_bytes = _measure(kind)
        pointers: list[Held] = []
        for held in _Walk().find_held(kind, 0, name, 0):
            pointers.append(held)
            if len(pointers) > _MAX_POINTERS:
                return Argument(name, size_bytes, None)
        return Argument(name, size_bytes, tuple(pointers))
    except _UnknownError:
        return Argument(name, 0, None)


class _Walk:
    """Visits the types of one argument, in a limited number of steps: a damaged file may have loops."""

    def __init__(self) -> None:
        self._left = _MAX_STEPS

    def find_held(self, kind: DIE, offset: int, name: str, depth: int) -> Iterator[Held]:
        """Yield the addresses in a value of type ``kind`` at ``offset``."""
        self._left -= 1
        if depth > _MAX_DEPTH or self._left < 0:
            raise _UnknownError
        kind = _strip_names(kind)
        if kind.tag in _POINTERS:
            target = _read_type(kind)
            numbers = self._find_number_type(target, depth) if target is not None else None
            yield Held(offset, name, _spell(kind), numbers)
        elif kind.tag in _STRUCTS:
            for member, at, inner in self._list_members(kind):
                yield from self.find_held(
                    inner, offset + at, f"{name}.{member}" if member else name, depth + 1
                )
        elif kind.tag == "DW_TAG_array_type":
            inner = _require_type(kind)
            if not self._may_hold(inner, depth):
                return
            for i in range(_count(kind)):
                yield from self.find_held(inner, offset + i * _measure(inner), f"{name}[{i}]", depth + 1)

    def _may_hold(self, kind: DIE, depth: int) -> bool:
        """Whether a type contains addresses: only then are the elements of an array visited."""
        return next(self.find_held(kind, 0, "", depth + 1), None) is not None

    def _list_members(self, struct: DIE) -> Iterator[tuple[str, int, DIE]]:
        """Yield (name, offset, type) of base classes, which have no name, and data members."""
        if "DW_AT_declaration" in struct.attributes:
            raise _UnknownError
        for die in struct.iter_children():
            if die.tag not in ("DW_TAG_member", "DW_TAG_inheritance"):
                continue
            if "DW_AT_external" in die.attributes or "DW_AT_declaration" in die.attributes:
                continue  # a static member
            self._left -= 1
            if self._left < 0:
                raise _UnknownError
            place = die.attributes.get("DW_AT_data_member_location")
            if "DW_AT_data_bit_offset" in die.attributes:
                continue  # a bit field holds no address
            at = 0 if place is None else place.value
            if not isinstance(at, int):  # a virtual base
                raise _UnknownError
            yield ("" if die.tag == "DW_TAG_inheritance" else _read_name(die)), at, _require_type(die)

    def _find_number_type(self, kind: DIE, depth: int) -> str | None:
        """Return the one number type that fills a type without gaps, by its name in ELEMENT_TYPES."""
        kind = _strip_names(kind)
        if depth > _MAX_DEPTH:
            return None
        name = _read_name(kind)
        known = find_element_type(name) if name else None
        if known is not None and (kind.tag == "DW_TAG_base_type" or _is_own(name)):
            return known
        if kind.tag in ("DW_TAG_enumeration_type", "DW_TAG_array_type"):
            inner = _read_type(kind)
            return None if inner is None else self._find_number_type(inner, depth + 1)
        if kind.tag not in _STRUCTS or kind.tag == "DW_TAG_union_type":
            return None
        try:
            kinds = {
                self._find_number_type(inner, depth + 1)
                for _, _, inner in self._list_members(kind)
                if _measure(inner)
            }
            filled = sum(_measure(inner) for _, _, inner in self._list_members(kind))
        except _UnknownError:
            return None
        number = kinds.pop() if len(kinds) == 1 else None
        return number if number and find_size(number) and filled == _measure(kind) else None


def _is_own(name: str) -> bool:
    """Whether a struct is a number type of C++ or HIP, such as a half: its members are its bits."""
    return count_lanes(name) is not None or "<" in name


def _strip_names(kind: DIE) -> DIE:
    """Return a type without type names and qualifiers."""
    for _ in range(_MAX_DEPTH):
        if kind.tag not in _TRANSPARENT:
            return kind
        inner = _read_type(kind)
        if inner is None:
            return kind
        kind = inner
    raise _UnknownError


def _measure(kind: DIE, depth: int = 0) -> int:
    if depth > _MAX_DEPTH:
        raise _UnknownError
    kind = _strip_names(kind)
    size = kind.attributes.get("DW_AT_byte_size")
    if size is not None:
        return int(size.value)
    if kind.tag in _POINTERS:
        return int(kind.cu["address_size"])
    if kind.tag == "DW_TAG_array_type":
        return _count(kind) * _measure(_require_type(kind), depth + 1)
    raise _UnknownError


def _count(array: DIE) -> int:
    total = 1
    for die in array.iter_children():
        if die.tag != "DW_TAG_subrange_type":
            continue
        count, last = die.attributes.get("DW_AT_count"), die.attributes.get("DW_AT_upper_bound")
        if count is not None:
            total *= int(count.value)
        elif last is not None:
            total *= int(last.value) + 1
        else:
            raise _UnknownError
    return total


def _spell(kind: DIE, depth: int = 0) -> str:
    """Return a type as C++ source would spell it."""
    inner = _read_type(kind)
    target = "void" if inner is None else _spell(inner, depth + 1) if depth < _MAX_DEPTH else "..."
    if kind.tag in _POINTERS:
        return target + ("*" if kind.tag == "DW_TAG_pointer_type" else "&")
    if kind.tag in ("DW_TAG_const_type", "DW_TAG_volatile_type"):
        word = kind.tag.split("_")[2]
        return f"{target} {word}" if target.endswith(("*", "&")) else f"{word} {target}"
    if kind.tag == "DW_TAG_restrict_type":
        return target
    return _read_name(kind) or target


def _read_name(die: DIE) -> str:
    name = die.attributes.get("DW_AT_name")
    return os.fsdecode(name.value) if name is not None else ""


def _read_type(die: DIE) -> DIE | None:
    return die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None


def _require_type(die: DIE) -> DIE:
    kind = _read_type(die)
    if kind is None:
        raise _UnknownError
    return kind
