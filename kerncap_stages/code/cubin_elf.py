"""Reads sections and symbols of a cubin, which is a 64-bit ELF file (gABI, chapters 4 and 5)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_REL = 2, 4, 8, 9
STT_OBJECT, STT_FUNC, STT_SECTION = 1, 2, 3
STT_CUDA_OBJECT = 13  # NVIDIA's: a variable in a cubin that is to be linked
STO_ENTRY = 0x10  # NVIDIA's: a function that can be launched

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True)
class Section:
    """A section; its offset and size are bytes in the file."""

    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int
    header: int  # offset of its section header in the file


@dataclass(frozen=True)
class Symbol:
    """A symbol; ``value`` and ``size`` are bytes in its section."""

    name: str
    kind: int
    other: int
    section: int
    value: int
    size: int


def read_sections(data: bytes) -> list[Section]:
    """Return all sections. Raises struct.error, IndexError or ValueError for a damaged file."""
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    places = [table + index * size for index in range(count)]
    raw = [_SECTION.unpack_from(data, place) for place in places]
    strings = raw[names][4]
    return [
        Section(_read_text(data, strings + head[0]), head[1], head[4], head[5], head[6], head[7], place)
        for place, head in zip(places, raw, strict=True)
    ]


def read_symbols(data: bytes, sections: list[Section]) -> list[Symbol]:
    """Return all symbols in the order of their indices; none if there is no symbol table.

    Raises like ``read_sections``.
    """
    table = next((section for section in sections if section.kind == SHT_SYMTAB), None)
    if table is None:
        return []
    strings = sections[table.link].offset
    found = []
    for index in range(table.size // _SYMBOL.size):
        name, info, other, section, value, size = _SYMBOL.unpack_from(
            data, table.offset + index * _SYMBOL.size
        )
        found.append(Symbol(_read_text(data, strings + name), info & 15, other, section, value, size))
    return found


def _read_text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode(errors="replace")
