"""Reads from a code object's DWARF where a kernel was declared, and which files it was compiled from."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.cubin import read_line_numbers
from kerncap_stages.code.elf import ELFFile, SymbolTableSection
from kerncap_stages.code.elf_damage import convert_elf_errors
from kerncap_stages.code.file_format import FileFormat, find_format
from kerncap_stages.code.kernel_facts import is_same_but_for_unit
from kerncap_stages.compilers.cubin_lines import read_cubin_lines
from kerncap_stages.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.dwarfinfo import DWARFInfo

_NAMES = ("linkage_name", "MIPS_linkage_name", "name")  # nvcc uses the second


@dataclass(frozen=True)
class LineTables:
    """``paths``: every file that is named, in order; ``definition``: (path, line) of the kernel, if known."""

    paths: tuple[Path, ...] = ()
    definition: tuple[Path, int] | None = None


def read_line_tables(code_object: bytes, mangled_name: str) -> LineTables:
    """Read DWARF line tables; empty if the code object has none, or they cannot be read."""
    try:
        with convert_elf_errors(hint="compile it again"):
            elf = ELFFile(io.BytesIO(code_object))
            if elf.has_dwarf_info():
                # pyelftools does not know the relocations of cubins; nothing that is read here needs them.
                dwarf = elf.get_dwarf_info(
                    relocate_dwarf_sections=find_format(code_object) is not FileFormat.CUBIN
                )
                found = _read(dwarf, mangled_name)
                if found.definition is None:
                    return replace(found, definition=_find_python_line(elf, dwarf, mangled_name))
                return found
            return LineTables(*read_cubin_lines(*read_line_numbers(code_object), mangled_name))
    except ArtifactError:
        # Line tables are only hints, and the file may come from anybody: unreadable is the same as absent.
        return LineTables()


def _read(dwarf: DWARFInfo, mangled_name: str) -> LineTables:
    paths: dict[Path, None] = {}
    definition: tuple[Path, int] | None = None
    for unit in dwarf.iter_CUs():
        files = list(_list_unit_files(dwarf, unit))
        paths.update((path, None) for path in files if path is not None)
        for die in unit.iter_DIEs():
            if die.tag != "DW_TAG_subprogram":
                continue
            names = (die.attributes.get(f"DW_AT_{kind}") for kind in _NAMES)
            name = next((each for each in names if each), None)
            where, line = die.attributes.get("DW_AT_decl_file"), die.attributes.get("DW_AT_decl_line")
            if name and where and line and is_same_but_for_unit(os.fsdecode(name.value), mangled_name):
                path = files[where.value] if where.value < len(files) else None
                if path is not None:
                    definition = (path, line.value)
    return LineTables(tuple(paths), definition)


def _find_python_line(elf: ELFFile, dwarf: DWARFInfo, symbol: str) -> tuple[Path, int] | None:
    """Return the line of a Triton kernel's beginning: its DWARF has no line but those of instructions."""
    tables = [elf.get_section_by_name(name) for name in (".symtab", ".dynsym")]
    listed = [table for table in tables if isinstance(table, SymbolTableSection)]
    found = [each for table in listed for each in table.get_symbol_by_name(symbol) or ()]
    for unit in dwarf.iter_CUs() if found else ():
        files = list(_list_unit_files(dwarf, unit))
        program = dwarf.line_program_for_CU(unit)
        for row in () if program is None else program.get_entries():
            state = row.state
            if state is None or state.address != found[0]["st_value"] or state.file >= len(files):
                continue
            path = files[state.file]
            return None if path is None or path.suffix != ".py" or not state.line else (path, state.line)
    return None


def _list_unit_files(dwarf: DWARFInfo, unit: CompileUnit) -> Iterator[Path | None]:
    program = dwarf.line_program_for_CU(unit)
    if program is None:
        return
    header = program.header
    top = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
    base = os.fsdecode(top.value) if top else "/"
    # DWARF 5 counts folders and files from 0; in older versions, folder 0 is the compilation folder, and
    # files count from 1.
    folders = [os.fsdecode(name) for name in header["include_directory"]]
    if header["version"] < 5:
        folders.insert(0, base)
        yield None
    for entry in header["file_entry"]:
        folder = folders[entry.dir_index] if entry.dir_index < len(folders) else base
        yield Path(os.path.normpath(Path(base, folder, os.fsdecode(entry.name))))
