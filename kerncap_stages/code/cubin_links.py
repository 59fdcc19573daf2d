"""Which addresses a cubin asks the driver for: its variables, and the relocations against them and functions.

A cubin refers to what it defines by ELF relocations (Elf64_Rela), which the driver resolves when it loads it:

    type        what is written                                   where
    0x02 0x04   the address, 64 bits                              tables of addresses, initial values
    0x38 0x39   the low, the high 32 bits of it, as bytes 4 to 7  an instruction of 16 bytes

NVIDIA documents none of them: these are what ptxas and nvlink 12.9 and 13.0 write for sm_90. Without separate
compilation what stands for the address of a function is the place of its number in a table of each kernel
(``.nv.constant2.<kernel>``), or, where the cubin has one kernel, its distance from the kernel's beginning:
the same wherever the driver loads the code.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.code.cubin_elf import (
    SHT_NOBITS,
    SHT_RELA,
    STO_ENTRY,
    STT_FUNC,
    STT_OBJECT,
    STT_SECTION,
    read_sections,
    read_symbols,
)
from kerncap_stages.code.file_format import FileFormat, format_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerncap_stages.code.cubin_elf import Symbol

_RELOCATION = struct.Struct("<QQq")
_CONSTANTS = ".nv.constant3"  # __constant__ variables
_GLOBALS = ".nv.global"
_LOADED_SECTIONS = (_GLOBALS, ".nv.constant", ".text.")
_WHOLE = frozenset({0x02, 0x04})
_LOW, _HIGH = 0x38, 0x39
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
    """A word of a variable that is loaded with the address of a function."""

    function: str
    variable: Variable
    offset_bytes: int


@dataclass(frozen=True)
class _Relocation:
    at: int  # in the file, of the entry itself
    section: int  # that it changes
    offset: int
    symbol: int
    kind: int
    addend: int


class Links:
    """The variables of a cubin, and what refers to them."""

    def __init__(self, data: bytes) -> None:
        """Read a cubin. Raises ValueError, IndexError or struct.error for what is none, or is damaged."""
        if format_of(data) is not FileFormat.CUBIN:
            raise ValueError("not a cubin")
        self._data = data
        self._sections = read_sections(data)
        if any(each.kind == SHT_RELA and each.offset + each.size > len(data) for each in self._sections):
            raise ValueError("relocations beyond the end of the file")
        self._symbols = read_symbols(data, self._sections)
        self._relocations = self._read_relocations()
        names = Counter(symbol.name for symbol in self._symbols if symbol.kind == STT_OBJECT)
        self._by_name = {
            symbol.name: (index, self._variable(symbol))
            for index, symbol in enumerate(self._symbols)
            if symbol.kind == STT_OBJECT and names[symbol.name] == 1 and self._holds_variables(symbol)
        }

    @property
    def variables(self) -> dict[str, Variable]:
        """Those whose name is their own alone."""
        return {name: variable for name, (_, variable) in self._by_name.items()}

    @property
    def kernels(self) -> list[str]:
        """Whatever has instructions of its own that may be launched, or called."""
        return [each.name.removeprefix(".text.") for each in self._sections if each.name.startswith(".text.")]

    def function_slots(self) -> list[FunctionSlot]:
        """Where variables are loaded with addresses of functions: tables of virtual functions among them."""
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

    def taken_functions(self) -> set[str]:
        """Functions whose address the code takes: with separate compilation, what it may store."""
        found = set()
        for each in self._relocations:
            symbol = self._symbols[each.symbol]
            is_code = self._sections[each.section].name.startswith(".text.")
            is_address = each.kind in (*_WHOLE, _LOW, _HIGH)  # a call has a kind of its own
            is_function = symbol.kind == STT_FUNC and not symbol.other & STO_ENTRY
            # Return addresses lie behind a function's beginning.
            if is_code and is_address and is_function and not each.addend:
                found.add(symbol.name)
        return found

    def function_numbers(self, kernel: str) -> dict[int, str]:
        """The functions that have an address, by the numbers that stand for it in the kernel."""
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
            # Functions that are only called are there, too: those count that a variable is loaded with.
            held = self._initial_words()
            return {number: name for number, name in names.items() if number in held}
        words = struct.unpack_from(f"<{table.size // _WORD_BYTES}Q", self._data, table.offset)
        return {number * _WORD_BYTES: names[word] for number, word in enumerate(words) if word in names}

    def with_fixed(self, addresses: Mapping[str, int]) -> tuple[bytes, frozenset[str]]:
        """The cubin with variables at given addresses, as far as that can be; and which those are.

        What refers to such a variable is given the address, and no relocation is left to the driver, which
        makes a variable of its own that nothing refers to.
        """
        wanted = {
            index: (name, addresses[name]) for name, (index, _) in self._by_name.items() if name in addresses
        }
        refused = set()
        unnamed = set()  # sections that are referred to by no variable's name
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
        for each in mine:
            if each.symbol in refused:
                continue
            value = (wanted[each.symbol][1] + each.addend) % (1 << 64)
            at = self._sections[each.section].offset + each.offset
            if each.kind in _WHOLE:
                struct.pack_into("<Q", made, at, value)
            else:
                half = value & 0xFFFFFFFF if each.kind == _LOW else value >> 32
                struct.pack_into("<I", made, at + _IMMEDIATE_AT, half)
        self._remove(made, [each.at for each in mine if each.symbol not in refused])
        return bytes(made), frozenset(name for index, (name, _) in wanted.items() if index not in refused)

    def _initial_words(self) -> set[int]:
        words: set[int] = set()
        for section in self._sections:
            if section.kind != SHT_NOBITS and (
                section.name.startswith(_GLOBALS) or section.name == _CONSTANTS
            ):
                count = section.size // _WORD_BYTES
                words.update(struct.unpack_from(f"<{count}Q", self._data, section.offset))
        return words

    def _remove(self, made: bytearray, entries: list[int]) -> None:
        """Take relocations out of their tables."""
        gone = set(entries)
        for table in self._sections:
            places = range(table.offset, table.offset + table.size, _RELOCATION.size)
            if table.kind != SHT_RELA or gone.isdisjoint(places):
                continue
            kept = [made[at : at + _RELOCATION.size] for at in places if at not in gone]
            whole = b"".join(kept)
            made[table.offset : table.offset + len(whole)] = whole
            struct.pack_into("<Q", made, table.header + _SECTION_SIZE_AT, len(whole))

    def _fits(self, each: _Relocation) -> bool:
        section = self._sections[each.section]
        return section.kind != SHT_NOBITS and 0 <= each.offset <= section.size - _WORD_BYTES

    def _holds_variables(self, symbol: Symbol) -> bool:
        name = self._sections[symbol.section].name if symbol.section < len(self._sections) else ""
        return symbol.size > 0 and (name.startswith(_GLOBALS) or name == _CONSTANTS)

    def _variable(self, symbol: Symbol) -> Variable:
        return Variable(symbol.name, symbol.size, self._sections[symbol.section].name == _CONSTANTS)

    def _read_relocations(self) -> list[_Relocation]:
        found = []
        for table in self._sections:
            if table.kind != SHT_RELA or table.info >= len(self._sections):
                continue
            if not self._sections[table.info].name.startswith(_LOADED_SECTIONS):
                continue  # debug information, much of it
            for at in range(table.offset, table.offset + table.size - _RELOCATION.size + 1, _RELOCATION.size):
                offset, info, addend = _RELOCATION.unpack_from(self._data, at)
                if info >> 32 < len(self._symbols):
                    found.append(_Relocation(at, table.info, offset, info >> 32, info & 0xFFFFFFFF, addend))
        return found
