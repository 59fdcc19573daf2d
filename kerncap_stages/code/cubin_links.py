"""Reads the variables of a cubin and the relocations against variables and functions, and resolves them.

A cubin refers to its symbols by ELF relocations (Elf64_Rela), which the driver resolves when it loads the
cubin:

    type        value                                             place
    0x02 0x04   the address, 64 bits                              tables of addresses, initial values
    0x38 0x39   the low, the high 32 bits of it, as bytes 4 to 7  an instruction of 16 bytes

NVIDIA documents none of them: ptxas and nvlink 12.9 and 13.0 write these for sm_80 to sm_120. Up to sm_89 a
relocation without an addend is an Elf64_Rel, and its place holds zeros.

Without separate compilation, code stores a number instead of a function's address. It is the function's
offset in a table of the kernel (``.nv.constant2.<kernel>``), or its distance from the start of the kernel if
the cubin has only one. The number does not depend on where the driver loads the code.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from kerncap_stages.code.cubin_elf import (
    SHT_NOBITS,
    SHT_REL,
    SHT_RELA,
    STO_ENTRY,
    STT_FUNC,
    STT_OBJECT,
    STT_SECTION,
    read_sections,
    read_symbols,
)
from kerncap_stages.code.file_format import FileFormat, find_format

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kerncap_stages.code.cubin_elf import Symbol

_WITH_ADDEND, _WITHOUT = struct.Struct("<QQq"), struct.Struct("<QQ")
_ENTRIES = {SHT_RELA: _WITH_ADDEND, SHT_REL: _WITHOUT}
_CONSTANTS = ".nv.constant3"  # __constant__ variables
_GLOBALS = ".nv.global"
_LOADED_SECTIONS = (_GLOBALS, ".nv.constant", ".text.")
_WHOLE = frozenset({0x02, 0x04})
_LOW, _HIGH = 0x38, 0x39
_UNKNOWN = -1
_IMMEDIATE_AT = 4
_SECTION_SIZE_AT = 32
_WORD_BYTES = 8


@dataclass(frozen=True)
class Variable:
    """A variable of a cubin."""

    name: str
    size_bytes: int
    is_const: bool


@dataclass(frozen=True)
class FunctionSlot:
    """A word of a variable that the driver initializes with the address of a function."""

    function: str
    variable: Variable
    offset_bytes: int


class WordPart(Enum):
    """Which part of an address a word of the file holds."""

    WHOLE = "whole"
    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True)
class AddressWord:
    """Where a cubin's file gets a variable's address plus the addend, or a half of that: 8 or 4 bytes."""

    place: int
    part: WordPart
    addend: int


@dataclass(frozen=True)
class _Relocation:
    at: int  # offset of the relocation itself in the file
    section: int  # the section that it changes
    offset: int
    symbol: int
    kind: int
    addend: int


class Links:
    """The variables of a cubin, and the relocations that refer to them."""

    def __init__(self, data: bytes) -> None:
        """Read a cubin. Raises ValueError, IndexError or struct.error if it is not a cubin or is damaged."""
        if find_format(data) is not FileFormat.CUBIN:
            raise ValueError("not a cubin")
        self._data = data
        self._sections = read_sections(data)
        if any(each.kind in _ENTRIES and each.offset + each.size > len(data) for each in self._sections):
            raise ValueError("relocations beyond the end of the file")
        self._symbols = read_symbols(data, self._sections)
        self._relocations = self._read_relocations()
        names = Counter(symbol.name for symbol in self._symbols if symbol.kind == STT_OBJECT)
        self._by_name = {
            symbol.name: (index, self._make_variable(symbol))
            for index, symbol in enumerate(self._symbols)
            if symbol.kind == STT_OBJECT and names[symbol.name] == 1 and self._is_variable(symbol)
        }

    @property
    def variables(self) -> dict[str, Variable]:
        """The variables by name, without those that share a name."""
        return {name: variable for name, (_, variable) in self._by_name.items()}

    @property
    def kernels(self) -> list[str]:
        """The names of all kernels and functions that have a section of instructions."""
        return [each.name.removeprefix(".text.") for each in self._sections if each.name.startswith(".text.")]

    def find_function_slots(self) -> list[FunctionSlot]:
        """Find the words of variables, also of virtual function tables, that get addresses of functions."""
        found = []
        for each in self._relocations:
            symbol = self._symbols[each.symbol]
            if symbol.kind != STT_FUNC or each.kind not in _WHOLE or each.addend:
                continue
            for index, variable in self._by_name.values():
                place = self._symbols[index]
                offset = each.offset - place.value
                if place.section == each.section and 0 <= offset <= variable.size_bytes - _WORD_BYTES:
                    found.append(FunctionSlot(symbol.name, variable, offset))
        return found

    def find_taken_functions(self) -> set[str]:
        """Find the functions whose address the code takes: with separate compilation it may store it."""
        found = set()
        for each in self._relocations:
            symbol = self._symbols[each.symbol]
            is_code = self._sections[each.section].name.startswith(".text.")
            is_address = each.kind in (*_WHOLE, _LOW, _HIGH)  # a call has a kind of its own
            is_function = symbol.kind == STT_FUNC and not symbol.other & STO_ENTRY
            # An address with an addend is a return address.
            if is_code and is_address and is_function and not each.addend:
                found.add(symbol.name)
        return found

    def find_function_numbers(self, kernel: str) -> dict[int, str]:
        """Find the functions that have a number in the kernel; returns the function of each number."""
        table = next((each for each in self._sections if each.name == f".nv.constant2.{kernel}"), None)
        text = next((i for i, each in enumerate(self._sections) if each.name == f".text.{kernel}"), None)
        if text is None:
            return {}
        names = {
            symbol.value: symbol.name.removeprefix(f"${kernel}$")
            for symbol in self._symbols
            if symbol.kind == STT_FUNC and symbol.section == text and symbol.name.startswith("$")
        }
        if table is None:
            # Symbols include functions that are only called directly; keep those whose number a variable
            # holds.
            held = self._read_initial_words()
            return {number: name for number, name in names.items() if number in held}
        words = struct.unpack_from(f"<{table.size // _WORD_BYTES}Q", self._data, table.offset)
        return {number * _WORD_BYTES: names[word] for number, word in enumerate(words) if word in names}

    def read_initial(self, name: str) -> bytes:
        """Return a variable's contents in the file; where the driver puts an address, they are zeros."""
        index, variable = self._by_name[name]
        section = self._sections[self._symbols[index].section]
        if section.kind == SHT_NOBITS:
            return bytes(variable.size_bytes)
        at = section.offset + self._symbols[index].value
        return self._data[at : at + variable.size_bytes]

    def fix_variables(self, addresses: Mapping[str, int]) -> tuple[bytes, frozenset[str]]:
        """Return a copy of the cubin whose code uses variables at the given addresses, and their names.

        The driver still allocates its own copy of such a variable, which nothing refers to. Variables that
        cannot be fixed this way keep their relocations, and their names are not returned.
        """
        released, words = self.release_variables(addresses)
        made = bytearray(released)
        for name, places in words.items():
            for word in places:
                value = (addresses[name] + word.addend) % (1 << 64)
                if word.part is WordPart.WHOLE:
                    struct.pack_into("<Q", made, word.place, value)
                else:
                    half = value & 0xFFFFFFFF if word.part is WordPart.LOW else value >> 32
                    struct.pack_into("<I", made, word.place, half)
        return bytes(made), frozenset(words)

    def release_variables(self, names: Collection[str]) -> tuple[bytes, dict[str, tuple[AddressWord, ...]]]:
        """Return a copy of the cubin without the relocations that refer to variables.

        Also returns, by variable, the words that then need its address. Variables that cannot be released
        keep their relocations, and are not among them.
        """
        wanted = {index: name for name, (index, _) in self._by_name.items() if name in names}
        refused = set()
        unnamed = set()  # sections that relocations refer to without naming a variable
        mine = []
        for each in self._relocations:
            if self._symbols[each.symbol].kind == STT_SECTION:
                unnamed.add(self._symbols[each.symbol].section)
            elif each.symbol in wanted:
                mine.append(each)
                if each.kind not in (*_WHOLE, _LOW, _HIGH) or not self._fits(each):
                    refused.add(each.symbol)
        refused |= {index for index in wanted if self._symbols[index].section in unnamed}
        made = bytearray(self._data)
        self._remove(made, [each.at for each in mine if each.symbol not in refused])
        words: dict[str, list[AddressWord]] = {
            name: [] for index, name in wanted.items() if index not in refused
        }
        for each in mine:
            if each.symbol not in refused:
                words[wanted[each.symbol]].append(self._make_word(each))
        return bytes(made), {name: tuple(places) for name, places in words.items()}

    def _make_word(self, each: _Relocation) -> AddressWord:
        at = self._sections[each.section].offset + each.offset
        addend = each.addend % (1 << 64)
        if each.kind in _WHOLE:
            return AddressWord(at, WordPart.WHOLE, addend)
        part = WordPart.LOW if each.kind == _LOW else WordPart.HIGH
        return AddressWord(at + _IMMEDIATE_AT, part, addend)

    def _read_initial_words(self) -> set[int]:
        words: set[int] = set()
        for section in self._sections:
            if section.kind != SHT_NOBITS and (
                section.name.startswith(_GLOBALS) or section.name == _CONSTANTS
            ):
                count = section.size // _WORD_BYTES
                words.update(struct.unpack_from(f"<{count}Q", self._data, section.offset))
        return words

    def _remove(self, made: bytearray, entries: list[int]) -> None:
        """Remove relocations from their tables."""
        gone = set(entries)
        for table in self._sections:
            if table.kind not in _ENTRIES:
                continue
            size = _ENTRIES[table.kind].size
            places = range(table.offset, table.offset + table.size, size)
            if gone.isdisjoint(places):
                continue
            kept = [made[at : at + size] for at in places if at not in gone]
            whole = b"".join(kept)
            made[table.offset : table.offset + len(whole)] = whole
            struct.pack_into("<Q", made, table.header + _SECTION_SIZE_AT, len(whole))

    def _fits(self, each: _Relocation) -> bool:
        section = self._sections[each.section]
        return section.kind != SHT_NOBITS and 0 <= each.offset <= section.size - _WORD_BYTES

    def _is_variable(self, symbol: Symbol) -> bool:
        name = self._sections[symbol.section].name if symbol.section < len(self._sections) else ""
        return symbol.size > 0 and (name.startswith(_GLOBALS) or name == _CONSTANTS)

    def _make_variable(self, symbol: Symbol) -> Variable:
        return Variable(symbol.name, symbol.size, self._sections[symbol.section].name == _CONSTANTS)

    def _read_relocations(self) -> list[_Relocation]:
        found = []
        for table in self._sections:
            if table.kind not in _ENTRIES or table.info >= len(self._sections):
                continue
            if not self._sections[table.info].name.startswith(_LOADED_SECTIONS):
                continue  # debug information has very many
            entry = _ENTRIES[table.kind]
            for at in range(table.offset, table.offset + table.size - entry.size + 1, entry.size):
                offset, info, *addend = entry.unpack_from(self._data, at)
                if info >> 32 >= len(self._symbols):
                    continue
                kind = info & 0xFFFFFFFF
                if not addend and not self._holds_zeros(table.info, offset, kind):
                    kind = _UNKNOWN
                found.append(_Relocation(at, table.info, offset, info >> 32, kind, *(addend or [0])))
        return found

    def _holds_zeros(self, number: int, offset: int, kind: int) -> bool:
        """Whether the place of a relocation without an addend adds nothing."""
        section = self._sections[number]
        if section.kind == SHT_NOBITS:
            return True
        at, size = section.offset + offset, _WORD_BYTES
        if kind in (_LOW, _HIGH):
            at, size = at + _IMMEDIATE_AT, _WORD_BYTES // 2
        return not any(self._data[at : at + size])
