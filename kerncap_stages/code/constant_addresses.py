"""Compares two builds of a kernel whose addresses are at other places of constant bank 4.

Code reads addresses of variables, of texts (``printf``, ``assert``) and of the driver's functions from this
bank: ``.nv.constant4``, which a relocation fills in. The place of an address depends on all kernels of the
unit, and is in the instructions, of 16 bytes each:

    bits 0 to 11    opcode: MOV of a number, LDC, or any whose bits 8 to 11 say that it has a constant
    bits 16 to 23   the register that is written
    bits 24 to 31   LDC: a register with a place, 255 for none, that the following one is added to
    bits 32 to 63   MOV of a number: the number
    bits 38 to 53   otherwise the place, or the place of the address's upper half, 4 bytes behind it
    bits 54 to 58   and the bank

NVIDIA documents none of it. It was read out of what ptxas 13.0 writes for sm_80 and sm_90. The place of a
function is a number that LDC gets in a register. With separate compilation the instructions themselves have
relocations instead.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from kerncap_stages.code.cubin import find_kernel_code
from kerncap_stages.code.cubin_elf import (
    SHT_NOBITS,
    SHT_REL,
    SHT_RELA,
    STT_CUDA_OBJECT,
    STT_OBJECT,
    read_sections,
    read_symbols,
)
from kerncap_stages.code.kernel_facts import find_symbol, is_same_but_for_unit

_SECTION, _TEXT_SECTION = ".nv.constant4", ".text."
_INSTRUCTION_BYTES = 16
_MOV_NUMBER, _LDC = 0x802, 0xB82
_OPCODE = 0xFFF
_FORM_AT, _FORM, _HAS_CONSTANT = 8, 0xF, (0x6, 0xA)
_HALF = 4  # bytes of an address
_PLACE_AT, _PLACE = 38, 0xFFFF << 38
_NUMBER_AT, _NUMBER = 32, 0xFFFFFFFF << 32
_BANK_AT, _BANK_BITS, _BANK = 54, 0x1F, 4
_WRITTEN_AT, _INDEX_AT, _REGISTER = 16, 24, 0xFF
_ADDRESS_KINDS = frozenset({0x02, 0x04})  # 64 bits
_ENTRIES = {SHT_RELA: struct.Struct("<QQq"), SHT_REL: struct.Struct("<QQ")}
# Texts in the source have no names of their own: nvcc numbers those of a unit.
_TEXT = re.compile(r"(?:\$str(?:\$\d+)?|__unnamed_\d+)\Z")


@dataclass(frozen=True)
class _Target:
    """What an address is of: a symbol with this name, or a text with this content."""

    name: str
    text: bytes | None
    addend: int

    def is_same(self, other: _Target) -> bool:
        if self.addend != other.addend:
            return False
        if self.text is not None or other.text is not None:
            return self.text == other.text
        return is_same_but_for_unit(self.name, other.name)


def has_same_code(cubin: bytes, symbol: str, other: bytes, other_symbol: str) -> bool:
    """Whether a kernel has the same instructions in two cubins, but for places of the same addresses.

    False as well if one of them has the address of something else, or a cubin is damaged or does not have the
    kernel. What is at an address that no symbol names is not known, and counts as the same at one place.
    """
    ours, theirs = find_kernel_code(cubin, symbol), find_kernel_code(other, other_symbol)
    if ours is None or theirs is None or len(ours) != len(theirs) or len(ours) % _INSTRUCTION_BYTES:
        return False
    try:
        targets, other_targets = _read_targets(cubin, _SECTION), _read_targets(other, _SECTION)
        linked, other_linked = _read_linked(cubin, symbol), _read_linked(other, other_symbol)
    except (struct.error, IndexError, OverflowError, ValueError):
        return False  # the file may be malformed
    if any(not linked[at].is_same(other_linked[at]) for at in linked.keys() & other_linked.keys()):
        return False
    words = _read_words(ours)
    places = _find_places(words)
    for index, (left, right) in enumerate(zip(words, _read_words(theirs), strict=True)):
        at, bits = places.get(index, (0, 0))
        if (left ^ right) & ~bits:
            return False
        place, other_place = (left & bits) >> at, (right & bits) >> at
        half = place & _HALF if place & _HALF == other_place & _HALF else 0
        first, second = targets.get(place - half), other_targets.get(other_place - half)
        if first is None or second is None:
            if left != right:
                return False
        elif bits and not first.is_same(second):
            return False
    return True


def _read_words(code: bytes) -> list[int]:
    size = _INSTRUCTION_BYTES
    return [int.from_bytes(code[at : at + size], "little") for at in range(0, len(code), size)]


def _find_places(words: list[int]) -> dict[int, tuple[int, int]]:
    """Return which instructions have a place of the bank, and where: the first bit, and all bits.

    The number that LDC gets in a register is that of the last instruction before it that writes the register.
    """
    found: dict[int, tuple[int, int]] = {}
    writers: dict[int, int] = {}  # the last instruction so far, by the register that it writes
    for index, word in enumerate(words):
        has_constant = word & _OPCODE == _LDC or word >> _FORM_AT & _FORM in _HAS_CONSTANT
        if has_constant and word >> _BANK_AT & _BANK_BITS == _BANK:
            register = word >> _INDEX_AT & _REGISTER if word & _OPCODE == _LDC else _REGISTER
            if register == _REGISTER:
                found[index] = _PLACE_AT, _PLACE
            elif register in writers and not word & _PLACE:
                writer = writers[register]
                if words[writer] & _OPCODE == _MOV_NUMBER:
                    found[writer] = _NUMBER_AT, _NUMBER
        writers[word >> _WRITTEN_AT & _REGISTER] = index
    return found


def _read_linked(cubin: bytes, symbol: str) -> dict[int, _Target]:
    """Return what each instruction of a kernel gets the address of, by its offset; not the kernel's own."""
    sections = [each.name for each in read_sections(cubin) if each.name.startswith(_TEXT_SECTION)]
    name = find_symbol(symbol, {each.removeprefix(_TEXT_SECTION): each for each in sections})
    found = {} if name is None else _read_targets(cubin, _TEXT_SECTION + name, None)
    return {at: target for at, target in found.items() if target.name != name}


def _read_targets(
    cubin: bytes, changed: str, kinds: frozenset[int] | None = _ADDRESS_KINDS
) -> dict[int, _Target]:
    """Return what each place of a section gets the address of, by relocations of these kinds or any."""
    sections = read_sections(cubin)
    symbols = read_symbols(cubin, sections)
    found = {}
    for table in sections:
        if table.kind not in _ENTRIES or sections[table.info].name != changed:
            continue
        entry = _ENTRIES[table.kind]
        for at in range(table.offset, table.offset + table.size, entry.size):
            offset, info, *addend = entry.unpack_from(cubin, at)
            if kinds is not None and info & 0xFFFFFFFF not in kinds:
                continue
            symbol, text = symbols[info >> 32], None
            if symbol.kind in (STT_OBJECT, STT_CUDA_OBJECT) and _TEXT.match(symbol.name):
                section = sections[symbol.section]
                if section.kind == SHT_NOBITS:
                    continue
                start = section.offset + symbol.value
                text = cubin[start : start + symbol.size]
            if symbol.name:  # else it is of a section, and what is there is not known
                found[offset] = _Target(symbol.name, text, sum(addend))
    return found
