"""Compares two builds of a kernel whose addresses are at other places of constant bank 4.

Code reads addresses of variables, of texts (``printf``, ``assert``) and of the driver's functions from this
bank: ``.nv.constant4``, which a relocation fills in. The place of an address depends on all kernels of the
unit, and is in the instructions, of 16 bytes each:

    bits 0 to 11    opcode: MOV of a number or of a constant, LDC, ULDC
    bits 16 to 23   the register that is written
    bits 24 to 31   LDC: a register with a place, 255 for none, that the following one is added to
    bits 32 to 63   MOV of a number: the number
    bits 38 to 53   otherwise the place
    bits 54 to 58   and the bank

NVIDIA documents none of it. It was read out of what ptxas 13.0 writes for sm_80 and sm_90. The place of a
function is a number that LDC gets in a register.
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
    STT_OBJECT,
    read_sections,
    read_symbols,
)
from kerncap_stages.code.kernel_facts import is_same_but_for_unit

_SECTION = ".nv.constant4"
_INSTRUCTION_BYTES = 16
_MOV_NUMBER, _MOV, _LDC, _ULDC = 0x802, 0xA02, 0xB82, 0xAB9
_OPCODE = 0xFFF
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

    False as well if a cubin is damaged or does not have the kernel.
    """
    ours, theirs = find_kernel_code(cubin, symbol), find_kernel_code(other, other_symbol)
    if ours is None or theirs is None or len(ours) != len(theirs) or len(ours) % _INSTRUCTION_BYTES:
        return False
    if ours == theirs:
        return True
    try:
        targets, other_targets = _read_targets(cubin), _read_targets(other)
    except (struct.error, IndexError, OverflowError, ValueError):
        return False  # the file may be malformed
    instructions = list(zip(_read_words(ours), _read_words(theirs), strict=True))
    indices = {_find_index(left) for left, _ in instructions} - {_REGISTER}
    for left, right in instructions:
        if left == right:
            continue
        at, bits = _find_place(left, indices)
        if (left ^ right) & ~bits:
            return False
        first, second = targets.get((left & bits) >> at), other_targets.get((right & bits) >> at)
        if first is None or second is None or not first.is_same(second):
            return False
    return True


def _read_words(code: bytes) -> list[int]:
    size = _INSTRUCTION_BYTES
    return [int.from_bytes(code[at : at + size], "little") for at in range(0, len(code), size)]


def _find_place(instruction: int, indices: set[int]) -> tuple[int, int]:
    """Return where an instruction has a place of the bank: the first bit, and all bits, if it has one."""
    opcode = instruction & _OPCODE
    if opcode in (_MOV, _LDC, _ULDC) and _reads_bank(instruction):
        return _PLACE_AT, _PLACE
    if opcode == _MOV_NUMBER and instruction >> _WRITTEN_AT & _REGISTER in indices:
        return _NUMBER_AT, _NUMBER
    return 0, 0


def _find_index(instruction: int) -> int:
    """Return the register with which an instruction reads a place of the bank; 255 if it does not."""
    reads = instruction & _OPCODE == _LDC and _reads_bank(instruction)
    return instruction >> _INDEX_AT & _REGISTER if reads else _REGISTER


def _reads_bank(instruction: int) -> bool:
    return instruction >> _BANK_AT & _BANK_BITS == _BANK


def _read_targets(cubin: bytes) -> dict[int, _Target]:
    """Return what each place of the bank gets the address of."""
    sections = read_sections(cubin)
    symbols = read_symbols(cubin, sections)
    found = {}
    for table in sections:
        if table.kind not in _ENTRIES or sections[table.info].name != _SECTION:
            continue
        entry = _ENTRIES[table.kind]
        for at in range(table.offset, table.offset + table.size, entry.size):
            offset, info, *addend = entry.unpack_from(cubin, at)
            if info & 0xFFFFFFFF not in _ADDRESS_KINDS:
                continue
            symbol, text = symbols[info >> 32], None
            if symbol.kind == STT_OBJECT and _TEXT.match(symbol.name):
                section = sections[symbol.section]
                if section.kind == SHT_NOBITS:
                    continue
                start = section.offset + symbol.value
                text = cubin[start : start + symbol.size]
            if symbol.name:  # else it is of a section, and what is there is not known
                found[offset] = _Target(symbol.name, text, sum(addend))
    return found
