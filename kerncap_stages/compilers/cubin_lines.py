"""Reads the line numbers of a cubin that nvcc made with ``-lineinfo``: its files, and where a kernel begins.

    program  = bytes:u32 version:u16 header:u32 step:u8 default:u8 base:i8 range:u8 opcodes:u8
               length:u8*(opcodes-1) folder* 0 file* 0 instruction*
    folder   = name 0         file = name 0 folder:uleb128 time:uleb128 bytes:uleb128

See chapter 6.2 of DWARF 2 and 3. There may be several programs. An opcode below `opcodes` is an instruction
with operands; the others advance line and address and end a row. NVIDIA's 0x90 marks rows of an inlined call.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.kernel_facts import is_same_but_for_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PROGRAM_HEADER = 10  # bytes up to where `header` counts from
_COPY, _ADVANCE_LINE, _SET_FILE, _FIXED_ADVANCE = 1, 3, 4, 9
_END_OF_SEQUENCE, _SET_ADDRESS, _INLINED_CALL = 1, 2, 0x90


@dataclass
class _Reader:
    data: bytes
    at: int

    def read_byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def read_text(self) -> str:
        end = self.data.index(b"\0", self.at)
        found, self.at = self.data[self.at : end], end + 1
        return os.fsdecode(found)

    def read_unsigned(self) -> int:
        value = shift = 0
        while (part := self.read_byte()) & 0x80:
            value |= (part & 0x7F) << shift
            shift += 7
        return value | part << shift

    def read_signed(self) -> int:
        begin = self.at
        value = self.read_unsigned()
        bits = 7 * (self.at - begin)
        return value - (1 << bits) if value >> (bits - 1) else value


def read_cubin_lines(
    data: bytes, functions: Mapping[int, str], symbol: str
) -> tuple[tuple[Path, ...], tuple[Path, int] | None]:
    """Return (every file with an absolute path, in order; path and line of a kernel's beginning, if known).

    functions: by the offset in ``data`` at which the function's address is stored.
    Raises IndexError or ValueError if the data are not line numbers.
    """
    paths: dict[Path, None] = {}
    definition = None
    begin = 0
    while begin + _PROGRAM_HEADER < len(data):
        end = begin + 4 + int.from_bytes(data[begin : begin + 4], "little")
        if int.from_bytes(data[begin + 4 : begin + 6], "little") not in (2, 3):
            break
        files = list(_read_files(_Reader(data, begin + _PROGRAM_HEADER + 4)))
        paths.update((path, None) for path in files if path.is_absolute())
        for file, line in _read_first_rows(data, begin, min(end, len(data)), functions, symbol):
            if 0 < file <= len(files) and files[file - 1].is_absolute() and definition is None:
                definition = files[file - 1], line
        begin = end
    return tuple(paths), definition


def _read_files(reader: _Reader) -> Iterator[Path]:
    """Read the table of files. The reader is at the number of opcodes."""
    reader.at += reader.data[reader.at]  # skips the number and the lengths, which are one fewer
    folders = [Path()]
    while folder := reader.read_text():
        folders.append(Path(folder))
    while name := reader.read_text():
        folder_number, _, _ = reader.read_unsigned(), reader.read_unsigned(), reader.read_unsigned()
        yield Path(os.path.normpath(folders[folder_number] / name))


def _read_first_rows(
    data: bytes, begin: int, end: int, functions: Mapping[int, str], symbol: str
) -> Iterator[tuple[int, int]]:
    """Yield (number of the file, line) of the first row of the kernel's own code in each sequence of rows."""
    base = int.from_bytes(data[begin + 12 : begin + 13], "little", signed=True)
    spread, opcodes = data[begin + 13], data[begin + 14]
    lengths = data[begin + 15 : begin + 14 + opcodes]
    if spread == 0:
        raise ValueError("the line range is 0")
    reader = _Reader(data, begin + _PROGRAM_HEADER + int.from_bytes(data[begin + 6 : begin + 10], "little"))
    file, line, inlined, is_wanted = 1, 1, 0, False
    while reader.at < end:
        opcode = reader.read_byte()
        is_row = opcode >= opcodes or opcode == _COPY
        if opcode >= opcodes:
            line += base + (opcode - opcodes) % spread
        elif opcode == 0:
            after = reader.read_unsigned() + reader.at
            extended = reader.read_byte()
            if extended == _SET_ADDRESS:
                is_wanted = is_same_but_for_unit(functions.get(reader.at, ""), symbol)
            elif extended == _INLINED_CALL:
                inlined = reader.read_unsigned()
            elif extended == _END_OF_SEQUENCE:
                file, line, inlined, is_wanted = 1, 1, 0, False
            reader.at = after
        elif opcode == _ADVANCE_LINE:
            line += reader.read_signed()
        elif opcode == _SET_FILE:
            file = reader.read_unsigned()
        elif opcode == _FIXED_ADVANCE:
            reader.at += 2
        elif opcode != _COPY:
            for _ in range(lengths[opcode - 1]):
                reader.read_unsigned()
        if is_row and is_wanted and not inlined:
            yield file, line
            is_wanted = False
