"""What a code object's DWARF says of a kernel's arguments: the addresses that they hold, and of what.

It knows what the symbol and the text of a source do not: members of bases, defaults of templates, alignment.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elftools.elf.elffile import ELFFile

from kerncap_stages.code.element_types import element_type, lanes
from kerncap_stages.code.elf_damage import reading_elf
from kerncap_stages.code.file_format import FileFormat, format_of
from kerncap_stages.code.kernel_facts import same_but_for_unit
from kerncap_stages.code.structs import size_of
from kerncap_stages.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elftools.dwarf.die import DIE
    from elftools.dwarf.dwarfinfo import DWARFInfo

_MOST_DEBUG_BYTES = 64 << 20  # reading more takes minutes
_MOST_POINTERS = 4096  # of one argument: arrays of pointers are small
_MOST_STEPS = 100_000  # through the types of one argument
_MAX_DEPTH = 16
_NAMES = ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name", "DW_AT_name")
_POINTERS = ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")
_STRUCTS = ("DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type")
_TRANSPARENT = (
    *("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type"),
    *("DW_TAG_atomic_type", "DW_TAG_LLVM_annotation", "DW_TAG_template_alias"),
)


class _UnknownError(Exception):
    """A type that is only declared, or laid out at run time."""


@dataclass(frozen=True)
class Held:
    """An address in an argument. ``name``: of the argument and its members, ``a.out``."""

    offset_bytes: int
    name: str
    type_name: str
    element_type: str | None


@dataclass(frozen=True)
class Argument:
    """``pointers`` is None where the layout is not told."""

    name: str
    size_bytes: int
    pointers: tuple[Held, ...] | None


def read_arguments(code_object: bytes, mangled_name: str) -> tuple[Argument, ...]:
    """A kernel's arguments in their order; nothing where the code object has no DWARF of it."""
    try:
        with reading_elf(hint="compile it again"):
            elf = ELFFile(io.BytesIO(code_object))
            section = elf.get_section_by_name(".debug_info")
            if section is None or section.data_size > _MOST_DEBUG_BYTES:
                return ()
            # Of relocations of a cubin nothing that is read here depends; pyelftools does not know them.
            dwarf = elf.get_dwarf_info(relocate_dwarf_sections=format_of(code_object) is not FileFormat.CUBIN)
            kernel = _kernel(dwarf, mangled_name)
            if kernel is None:
                return ()
            parameters = (die for die in kernel.iter_children() if die.tag == "DW_TAG_formal_parameter")
            return tuple(_argument(die) for die in parameters)
    except ArtifactError:
        return ()  # a hint from a file that anybody may have written


def _kernel(dwarf: DWARFInfo, mangled_name: str) -> DIE | None:
    """The definition: a declaration has no address."""
    for unit in dwarf.iter_CUs():
        for die in unit.iter_DIEs():
            if die.tag != "DW_TAG_subprogram" or "DW_AT_low_pc" not in die.attributes:
                continue
            named = _origin(die)
            name = next((named.attributes[kind].value for kind in _NAMES if kind in named.attributes), None)
            if name is not None and same_but_for_unit(os.fsdecode(name), mangled_name):
                return die
    return None


def _origin(die: DIE) -> DIE:
    """The entry that has the name of a definition, or of an inlined copy."""
    for kind in ("DW_AT_abstract_origin", "DW_AT_specification"):
        if kind in die.attributes:
            return die.get_DIE_from_attribute(kind)
    return die


def _argument(die: DIE) -> Argument:
    named = _origin(die)
    name, kind = _name(named), _type(named)
    try:
        if kind is None:
            return Argument(name, 0, None)
        size_bytes = _size(kind)
        pointers: list[Held] = []
        for held in _Walk().held(kind, 0, name, 0):
            pointers.append(held)
            if len(pointers) > _MOST_POINTERS:
                return Argument(name, size_bytes, None)
        return Argument(name, size_bytes, tuple(pointers))
    except _UnknownError:
        return Argument(name, 0, None)


class _Walk:
    """Through the types of one argument, for a while: a damaged file may nest them without end."""

    def __init__(self) -> None:
        self._left = _MOST_STEPS

    def held(self, kind: DIE, offset: int, name: str, depth: int) -> Iterator[Held]:
        """The addresses in a value of a type that lies at an offset."""
        self._left -= 1
        if depth > _MAX_DEPTH or self._left < 0:
            raise _UnknownError
        kind = _plain(kind)
        if kind.tag in _POINTERS:
            target = _type(kind)
            numbers = self._numbers(target, depth) if target is not None else None
            yield Held(offset, name, _spelled(kind), numbers)
        elif kind.tag in _STRUCTS:
            for member, at, inner in self._members(kind):
                yield from self.held(inner, offset + at, f"{name}.{member}" if member else name, depth + 1)
        elif kind.tag == "DW_TAG_array_type":
            inner = _required(kind)
            if not self._may_hold(inner, depth):
                return
            for i in range(_count(kind)):
                yield from self.held(inner, offset + i * _size(inner), f"{name}[{i}]", depth + 1)

    def _may_hold(self, kind: DIE, depth: int) -> bool:
        """Whether there are addresses in a type: an array of numbers is not gone through."""
        return next(self.held(kind, 0, "", depth + 1), None) is not None

    def _members(self, struct: DIE) -> Iterator[tuple[str, int, DIE]]:
        """(name, offset, type) of bases, which have no name, and of data members."""
        if "DW_AT_declaration" in struct.attributes:
            raise _UnknownError
        for die in struct.iter_children():
            if die.tag not in ("DW_TAG_member", "DW_TAG_inheritance"):
                continue
            if "DW_AT_external" in die.attributes or "DW_AT_declaration" in die.attributes:
                continue  # static
            self._left -= 1
            if self._left < 0:
                raise _UnknownError
            place = die.attributes.get("DW_AT_data_member_location")
            if "DW_AT_data_bit_offset" in die.attributes:
                continue  # bits hold no address
            at = 0 if place is None else place.value
            if not isinstance(at, int):  # a virtual base
                raise _UnknownError
            yield ("" if die.tag == "DW_TAG_inheritance" else _name(die)), at, _required(die)

    def _numbers(self, kind: DIE, depth: int) -> str | None:
        """The one type of number that fills a type without gaps, as comparison.ELEMENT_TYPES calls it."""
        kind = _plain(kind)
        if depth > _MAX_DEPTH:
            return None
        name = _name(kind)
        known = element_type(name) if name else None
        if known is not None and (kind.tag == "DW_TAG_base_type" or _is_own(name)):
            return known
        if kind.tag in ("DW_TAG_enumeration_type", "DW_TAG_array_type"):
            inner = _type(kind)
            return None if inner is None else self._numbers(inner, depth + 1)
        if kind.tag not in _STRUCTS or kind.tag == "DW_TAG_union_type":
            return None
        try:
            kinds = {self._numbers(inner, depth + 1) for _, _, inner in self._members(kind) if _size(inner)}
            filled = sum(_size(inner) for _, _, inner in self._members(kind))
        except _UnknownError:
            return None
        number = kinds.pop() if len(kinds) == 1 else None
        return number if number and size_of(number) and filled == _size(kind) else None


def _is_own(name: str) -> bool:
    """Whether a struct is one of C++'s or HIP's numbers: its members are bits."""
    return lanes(name) is not None or "<" in name


def _plain(kind: DIE) -> DIE:
    """Behind type names and qualifiers."""
    for _ in range(_MAX_DEPTH):
        if kind.tag not in _TRANSPARENT:
            return kind
        inner = _type(kind)
        if inner is None:
            return kind
        kind = inner
    raise _UnknownError


def _size(kind: DIE, depth: int = 0) -> int:
    if depth > _MAX_DEPTH:
        raise _UnknownError
    kind = _plain(kind)
    size = kind.attributes.get("DW_AT_byte_size")
    if size is not None:
        return int(size.value)
    if kind.tag in _POINTERS:
        return int(kind.cu["address_size"])
    if kind.tag == "DW_TAG_array_type":
        return _count(kind) * _size(_required(kind), depth + 1)
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


def _spelled(kind: DIE, depth: int = 0) -> str:
    """A type as a person would write it."""
    inner = _type(kind)
    target = "void" if inner is None else _spelled(inner, depth + 1) if depth < _MAX_DEPTH else "..."
    if kind.tag in _POINTERS:
        return target + ("*" if kind.tag == "DW_TAG_pointer_type" else "&")
    if kind.tag in ("DW_TAG_const_type", "DW_TAG_volatile_type"):
        word = kind.tag.split("_")[2]
        return f"{target} {word}" if target.endswith(("*", "&")) else f"{word} {target}"
    if kind.tag == "DW_TAG_restrict_type":
        return target
    return _name(kind) or target


def _name(die: DIE) -> str:
    name = die.attributes.get("DW_AT_name")
    return os.fsdecode(name.value) if name is not None else ""


def _type(die: DIE) -> DIE | None:
    return die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None


def _required(die: DIE) -> DIE:
    kind = _type(die)
    if kind is None:
        raise _UnknownError
    return kind
