"""Asking the compiler which compile command made the captured kernel, where several could have."""

from __future__ import annotations

import io
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kerncap_stages.errors import DeviceError
from kerncap_stages.source.compilers import find_compiler
from kerncap_stages.source.dependencies import run_compiler
from kerncap_stages.source.flags import compile_flags

if TYPE_CHECKING:
    from kerncap_stages.source.compile_commands import CompileCommand
    from kerncap_stages.source.compilers import Compiler

_OPTIMISATION = re.compile(r"-O.*")


@dataclass(frozen=True)
class Wanted:
    """The captured kernel, for whoever must prove which command made it."""

    symbol: str
    base_name: str
    target: str
    code_object: bytes
    defines: tuple[str, ...]
    compiler: str | None  # instead of the one of the compile command

    def tool_for(self, command: CompileCommand) -> Compiler:
        """The compiler to ask; raises DeviceError if there is none that may be run."""
        return find_compiler(self.compiler or command.compiler, trusted=self.compiler is not None)


def yields_kernel(command: CompileCommand, wanted: Wanted) -> bool:
    """Compile a unit to assembly, quickly and for the device alone, and look for the kernel's symbol."""
    flags = [flag for flag in compile_flags(command, wanted.defines) if not _OPTIMISATION.fullmatch(flag)]
    try:
        words = wanted.tool_for(command).command(
            wanted.target, [*flags, "-O0"], "-w", "-S", "-o", "-", str(command.file)
        )
        result = run_compiler(words, command.directory)
    except DeviceError:
        return False
    mark = re.compile(r"^" + re.escape(wanted.symbol) + r":", re.MULTILINE)
    return result.returncode == 0 and mark.search(result.stdout) is not None


def makes_same_code(command: CompileCommand, wanted: Wanted) -> bool:
    """Compile a unit as the build does and compare the kernel's instructions with the captured ones."""
    with tempfile.TemporaryDirectory(prefix="kerncap-trial-") as name:
        output = Path(name) / "code"
        rest = ("-w", "--no-gpu-bundle-output", "-o", str(output), str(command.file))
        try:
            words = wanted.tool_for(command).command(
                wanted.target, compile_flags(command, wanted.defines), *rest
            )
            result = run_compiler(words, command.directory)
        except DeviceError:
            return False
        if result.returncode != 0 or not output.is_file():
            return False
        captured = function_bytes(wanted.code_object, wanted.symbol)
        return captured is not None and function_bytes(output.read_bytes(), wanted.symbol) == captured


def function_bytes(code_object: bytes, symbol: str) -> bytes | None:
    """The instructions of one function; None where a code object does not have it."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(io.BytesIO(code_object))
        for table in (".symtab", ".dynsym"):
            symbols = cast("Any", elf.get_section_by_name(table))
            for entry in symbols.get_symbol_by_name(symbol) or () if symbols is not None else ():
                section = elf.get_section(entry["st_shndx"])
                start = entry["st_value"] - section["sh_addr"]
                return bytes(section.data()[start : start + entry["st_size"]])
    except (ELFError, TypeError, KeyError, IndexError, ValueError):
        return None  # a file that anybody may have written
    return None
