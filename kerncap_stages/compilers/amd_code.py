"""Reads the instructions of functions in AMD's code objects, in a form in which two builds can be compared.

A function adds distances to the program counter to address other functions and data:

    s_getpc_b64  D              0xbe801c00 | D << 16
    s_add_u32    D, D, LOW      0x80...... and a literal: the distance from the end of s_getpc_b64
    s_addc_u32   D+1, D+1, HIGH 0x82...... and a literal

A distance depends on the rest of the code object, so the name of the target is compared instead.
"""

from __future__ import annotations

import io
import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from kerncap_stages.code.elf import ELFError, ELFFile
from kerncap_stages.code.kernel_facts import find_symbol

if TYPE_CHECKING:
    from collections.abc import Iterator

_GETPC, _ADD, _ADDC = 0xBE801C00, 0x80000000, 0x82000000
_GETPC_BITS, _OPCODE_BITS = 0xFF80FFFF, 0xFF800000
_LITERAL = 0xFF  # as a source operand
_MAX_NESTED = 8  # symbols that may contain one address


@dataclass(frozen=True)
class _Symbol:
    name: str
    address: int
    size_bytes: int
    offset: int | None  # of the instructions in the file; None if it is not a function


def read_kernel_code(code_object: bytes, symbol: str) -> bytes | None:
    """Return the instructions of a kernel and of all functions that it calls by name; None if it is missing.

    The symbol of a kernel with internal linkage may have a suffix for its unit.
    """
    symbols = _read_symbols(code_object)
    name = find_symbol(symbol, {each.name for each in symbols if each.offset is not None})
    kernel = next((each for each in symbols if each.name == name and each.offset is not None), None)
    if kernel is None:
        return None
    parts: list[bytes] = []
    wanted, seen = [kernel], {kernel.address}
    while wanted:
        each = wanted.pop()
        code, targets = _clear_distances(each, code_object)
        parts.append(code)
        for target in targets:
            held = _find_symbol_at(target, symbols)
            parts.append(f"{held.name}+{target - held.address}\0".encode() if held else b"\0")
            if held is not None and held.offset is not None and held.address not in seen:
                seen.add(held.address)
                wanted.append(held)
    return b"".join(parts)


def read_compiler_name(code_object: bytes) -> str | None:
    """Read the compiler's name and version from the comment section, without the linker's."""
    try:
        section = cast("Any", ELFFile(io.BytesIO(code_object)).get_section_by_name(".comment"))
        texts = section.data().split(b"\0") if section is not None else []
    except (ELFError, TypeError, KeyError, ValueError):
        return None
    named = sorted({text.decode(errors="replace") for text in texts if text and b"Linker" not in text})
    return ", ".join(named) or None


def _read_symbols(code_object: bytes) -> list[_Symbol]:
    """Read the symbols with a name and an address, by address; empty if the file is not a code object."""
    found: list[_Symbol] = []
    try:
        elf = ELFFile(io.BytesIO(code_object))
        table = cast("Any", elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym"))
        # Read once: pyelftools reads a section's header again at each access.
        places = [(section["sh_addr"], section["sh_offset"]) for section in elf.iter_sections()]
        for entry in table.iter_symbols() if table is not None else ():
            index, address = entry["st_shndx"], entry["st_value"]
            if not entry.name or not isinstance(index, int):
                continue
            start, offset = places[index]
            is_function = entry["st_info"]["type"] == "STT_FUNC"
            code = address - start + offset if is_function else None
            found.append(_Symbol(entry.name, address, entry["st_size"], code))
    except (ELFError, TypeError, KeyError, IndexError, ValueError):
        return []  # the file may come from anybody
    return sorted(found, key=lambda each: each.address)


def _slice_code(symbol: _Symbol, code_object: bytes) -> bytes:
    start = symbol.offset
    return b"" if start is None else code_object[start : start + symbol.size_bytes]


def _clear_distances(symbol: _Symbol, code_object: bytes) -> tuple[bytes, list[int]]:
    """Return the instructions with zeros in place of distances, and the addresses of their targets."""
    code = _slice_code(symbol, code_object)
    count = len(code) // 4
    words = list(struct.unpack(f"<{count}I", code[: count * 4]))
    targets = []
    for at, distance in list(_find_distances(words)):
        words[at + 2] = words[at + 4] = 0
        targets.append(symbol.address + 4 * (at + 1) + distance)
    return struct.pack(f"<{count}I", *words), targets


def _find_distances(words: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (index of s_getpc_b64, distance from its end)."""
    for at in range(len(words) - 4):
        getpc, add, low, addc, high = words[at : at + 5]
        if (
            getpc & _GETPC_BITS == _GETPC
            and add & _OPCODE_BITS == _ADD
            and addc & _OPCODE_BITS == _ADDC
            and all(_LITERAL in (word & 0xFF, word >> 8 & 0xFF) for word in (add, addc))
        ):
            distance = high << 32 | low
            yield at, distance - (1 << 64) if distance >> 63 else distance


def _find_symbol_at(address: int, symbols: list[_Symbol]) -> _Symbol | None:
    """Find the symbol that begins at an address or contains it."""
    at = bisect_right(symbols, address, key=lambda each: each.address)
    for each in reversed(symbols[max(0, at - _MAX_NESTED) : at]):
        if address == each.address or address < each.address + each.size_bytes:
            return each
    return None
