"""Finds where the instructions of a code object for an AMD GPU compute addresses of its own.

LLVM computes an address relative to the program counter, in instructions that stay together: ``s_getpc_b64``
into a pair of registers, then an addition of 64 bits in two halves, each with a literal of 32 bits.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kerncap_stages.code.elf import ELFFile
from kerncap_stages.code.elf_damage import convert_elf_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_EXECUTABLE = 1
_WORD_BYTES = 4
# SOP1 without its destination: s_getpc_b64, and s_mov_b64 of 0, of GFX9, GFX10, and from GFX11 on.
_SOP1_MASK = 0xFF80FFFF
_GETPC_GFX11 = 0xBE804700
_ZERO_INSTEAD = {0xBE801C00: 0xBE800180, 0xBE801F00: 0xBE800480, _GETPC_GFX11: 0xBE800180}
_ADD, _ADD_WITH_CARRY = 0x80000000, 0x82000000  # SOP2: s_add_u32, s_addc_u32
_LITERAL = 0xFF
# From GFX12 on the upper half of the program counter is extended first: s_sext_i32_i16.
_EXTEND = 0xBE800F00
# SOPP from GFX11 on, which the compiler puts between these instructions: s_wait_alu, s_delay_alu.
_SOPP_MASK, _WAIT, _DELAY = 0xFFFF0000, 0xBF880000, 0xBF870000
_RELATIVE_64 = 13  # R_AMDGPU_RELATIVE64: its symbol counts for nothing


@dataclass(frozen=True)
class AddressReference:
    """Instructions that compute ``target``, an address as in the file's symbols.

    at: offset in the file of s_getpc_b64; low, high: of the literals. absolute: the instruction that clears
    the pair of registers, in the place of s_getpc_b64: the literals are then the halves of an address.
    """

    at: int
    low: int
    high: int
    absolute: int
    target: int


@dataclass(frozen=True)
class AddressReferences:
    """All references. unknown: how many times the program counter is read in a way that was not understood.

    stored: addresses that the loader writes into data: where, and what.
    """

    found: tuple[AddressReference, ...]
    unknown: int
    stored: tuple[tuple[int, int], ...]


@convert_elf_errors(hint="compile it again")
def find_references(data: bytes) -> AddressReferences:
    """Find all addresses that code computes and that the loader stores.

    Raises ArtifactError if the bytes are not an ELF file.
    """
    elf = ELFFile(io.BytesIO(data))
    found: list[AddressReference] = []
    unknown = 0
    for segment in elf.iter_segments("PT_LOAD"):
        if not segment["p_flags"] & _EXECUTABLE:
            continue
        begin, size = segment["p_offset"], segment["p_filesz"] // _WORD_BYTES * _WORD_BYTES
        words = np.frombuffer(data[begin : begin + size], dtype="<u4")
        for at in np.flatnonzero(np.isin(words & np.uint32(_SOP1_MASK), list(_ZERO_INSTEAD))):
            reference = _read(words, int(at), begin, segment["p_vaddr"])
            if reference is None:
                unknown += 1
            else:
                found.append(reference)
    return AddressReferences(tuple(found), unknown, tuple(_list_stored(elf)))


def _read(words: np.ndarray[Any, Any], at: int, file_offset: int, address: int) -> AddressReference | None:
    first = int(words[at])
    low, high = first >> 16 & 0x7F, (first >> 16 & 0x7F) + 1
    add = _skip(words, at + 1, first, _EXTEND | high << 16 | high)
    carry = _skip(words, add + 2, first)
    if carry + 2 > len(words) or not (
        _is_addition(int(words[add]), _ADD, low) and _is_addition(int(words[carry]), _ADD_WITH_CARRY, high)
    ):
        return None
    distance = int(words[add + 1]) | int(words[carry + 1]) << 32
    return AddressReference(
        at=file_offset + at * _WORD_BYTES,
        low=file_offset + (add + 1) * _WORD_BYTES,
        high=file_offset + (carry + 1) * _WORD_BYTES,
        absolute=_ZERO_INSTEAD[first & _SOP1_MASK] | low << 16,
        target=(address + (at + 1) * _WORD_BYTES + distance) % 2**64,
    )


def _skip(words: np.ndarray[Any, Any], at: int, first: int, extend: int = 0) -> int:
    """Return the index of the next instruction that is no wait and not ``extend``."""
    waits = (_WAIT, _DELAY) if first & _SOP1_MASK == _GETPC_GFX11 else ()
    while at < len(words) and (int(words[at]) & _SOPP_MASK in waits or int(words[at]) == extend):
        at += 1
    return at


def _is_addition(word: int, operation: int, register: int) -> bool:
    """Whether an instruction adds the literal behind it to a register."""
    return word in (
        operation | register << 16 | _LITERAL << 8 | register,
        operation | register << 16 | register << 8 | _LITERAL,
    )


def _list_stored(elf: ELFFile) -> Iterator[tuple[int, int]]:
    for name in (".rela.dyn", ".rela.plt"):
        table = cast("Any", elf.get_section_by_name(name))
        symbols = None if table is None else cast("Any", elf.get_section(table["sh_link"]))
        for entry in () if table is None else table.iter_relocations():
            kind, base = entry["r_info_type"], 0
            if kind != _RELATIVE_64 and symbols is not None and entry["r_info_sym"]:
                base = symbols.get_symbol(entry["r_info_sym"])["st_value"]
            yield entry["r_offset"], (base + entry["r_addend"]) % 2**64
