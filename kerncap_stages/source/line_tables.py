"""What a code object's DWARF says of its kernels: where each was declared, and from which files."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.cubin import line_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.dwarfinfo import DWARFInfo

_OPCODES_AT = 14


@dataclass(frozen=True)
class LineTables:
    """``paths``: every file named, in order; ``definition``: (path, line) of the kernel, if told."""

    paths: tuple[Path, ...] = ()
    definition: tuple[Path, int] | None = None


def read_line_tables(code_object: bytes, mangled_name: str) -> LineTables:
    """Read DWARF line tables; empty where the code object has none or they are not readable."""
    from elftools.common.exceptions import DWARFError, ELFError
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(io.BytesIO(code_object))
        if elf.has_dwarf_info():
            return _read(elf.get_dwarf_info(), mangled_name)
        return LineTables(tuple(_files_of_lines(line_program(code_object) or b"")))
    except (ELFError, DWARFError, KeyError, ValueError, IndexError, AssertionError):
        # Hints from a file that anybody may have written: unreadable is the same as absent.
        return LineTables()


def _read(dwarf: DWARFInfo, mangled_name: str) -> LineTables:
    paths: dict[Path, None] = {}
    definition: tuple[Path, int] | None = None
    for unit in dwarf.iter_CUs():
        files = list(_unit_files(dwarf, unit))
        paths.update((path, None) for path in files if path is not None)
        for die in unit.iter_DIEs():
            if die.tag != "DW_TAG_subprogram":
                continue
            name = die.attributes.get("DW_AT_linkage_name") or die.attributes.get("DW_AT_name")
            where, line = die.attributes.get("DW_AT_decl_file"), die.attributes.get("DW_AT_decl_line")
            if name and where and line and name.value == mangled_name.encode():
                path = files[where.value] if where.value < len(files) else None
                if path is not None:
                    definition = (path, line.value)
    return LineTables(tuple(paths), definition)


def _files_of_lines(program: bytes) -> Iterator[Path]:
    """The files with absolute paths in the line numbers of a cubin: all that nvcc's -lineinfo tells.

    The header of DWARF 2 and 3; raises ValueError or IndexError where it is none:

        header = bytes:u32 version:u16 header:u32 step:u8 default:u8 base:i8 range:u8 opcodes:u8
                 length:u8*(opcodes-1) folder* 0 file* 0
        folder = name 0         file = name 0 folder:uleb128 time:uleb128 bytes:uleb128
    """
    if int.from_bytes(program[4:6], "little") not in (2, 3):
        return
    at = _OPCODES_AT + program[_OPCODES_AT]
    folders = [Path()]
    while program[at]:
        end = program.index(b"\0", at)
        folders.append(Path(os.fsdecode(program[at:end])))
        at = end + 1
    at += 1
    while program[at]:
        end = program.index(b"\0", at)
        name, at = os.fsdecode(program[at:end]), end + 1
        numbers = []
        for _ in range(3):
            number, at = _uleb128(program, at)
            numbers.append(number)
        path = folders[numbers[0]] / name
        if path.is_absolute():
            yield Path(os.path.normpath(path))


def _uleb128(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where what follows begins."""
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def _unit_files(dwarf: DWARFInfo, unit: CompileUnit) -> Iterator[Path | None]:
    program = dwarf.line_program_for_CU(unit)
    if program is None:
        return
    header = program.header
    top = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
    base = os.fsdecode(top.value) if top else "/"
    # DWARF 5 counts folders and files from 0; before, 0 meant the compilation folder and files began at 1.
    folders = [os.fsdecode(name) for name in header["include_directory"]]
    if header["version"] < 5:
        folders.insert(0, base)
        yield None
    for entry in header["file_entry"]:
        folder = folders[entry.dir_index] if entry.dir_index < len(folders) else base
        yield Path(os.path.normpath(Path(base, folder, os.fsdecode(entry.name))))
