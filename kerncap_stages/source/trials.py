"""Asking the compiler which compile command made the captured kernel, where several could have."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kerncap_stages.errors import DeviceError
from kerncap_stages.kernel_facts import without_unit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kerncap_stages.source.compile_commands import CompileCommand
    from kerncap_stages.source.toolchain import Tool, Toolchain

_Answer = TypeVar("_Answer")
MOST_TRIALS = 8  # compilations, where several units could hold the kernel


@dataclass(frozen=True)
class Wanted:
    """The captured kernel, for whoever must prove which command made it."""

    toolchain: Toolchain
    symbol: str
    base_name: str
    target: str
    code_object: bytes
    defines: tuple[str, ...]
    compiler: str | None  # instead of the one of the compile command

    @property
    def alone(self) -> str:
        """The kernel's symbol in a unit that is compiled alone."""
        return without_unit(self.symbol)

    def tool_for(self, command: CompileCommand) -> Tool:
        """The compiler to ask; raises DeviceError if there is none that may be run."""
        return self.toolchain.find(self.compiler or command.compiler, trusted=self.compiler is not None)


def _asked(
    command: CompileCommand,
    wanted: Wanted,
    question: Callable[[Tool], Callable[[Path, tuple[str, ...], Path, str, str], _Answer]],
) -> _Answer | None:
    """What a compiler says of a unit under its command; None where there is none to ask, or it fails."""
    flags = wanted.toolchain.flags(command, wanted.defines)
    try:
        ask = question(wanted.tool_for(command))
        return ask(command.file, flags, command.directory, wanted.target, wanted.alone)
    except DeviceError:
        return None


def yields_kernel(command: CompileCommand, wanted: Wanted) -> bool:
    """Whether a unit, compiled quickly and for the device alone, has the kernel's symbol."""
    return bool(_asked(command, wanted, lambda tool: tool.yields))


def defined_at(command: CompileCommand, wanted: Wanted) -> tuple[Path, int] | None:
    """The place where a unit defines the kernel, as its compiler has it; None where it does not tell."""
    found = _asked(command, wanted, lambda tool: tool.defined_at)
    if found is None:
        return None
    path = (command.directory / found[0]).resolve()
    return (path, found[1]) if path.is_file() else None


def makes_same_code(command: CompileCommand, wanted: Wanted) -> bool:
    """Compile a unit as the build does and compare the kernel's instructions with the captured ones."""
    return compares_code(command, wanted) is True


def compares_code(command: CompileCommand, wanted: Wanted) -> bool | None:
    """The same; None where the unit gives no instructions to compare, as without its compiler."""
    made = _asked(command, wanted, lambda tool: tool.device_code)
    captured = wanted.toolchain.kernel_code(wanted.code_object, wanted.symbol)
    return None if made is None or captured is None else made == captured


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
