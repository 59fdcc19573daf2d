"""Compiles units to find out which compile command made the captured kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kerncap_stages.code.read import read_code_object
from kerncap_stages.compilers.kernel_unit import KernelUnit
from kerncap_stages.compilers.one_kernel import WORTH_OTHERS
from kerncap_stages.compilers.precompiled import WORTH_BYTES
from kerncap_stages.errors import DeviceError
from kerncap_stages.locate.linking import RELOCATABLE, link_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.dependencies import Headers
    from kerncap_stages.compilers.shortcuts import Shortcut
    from kerncap_stages.compilers.toolchain import Tool
    from kerncap_stages.locate.wanted import Wanted

_Answer = TypeVar("_Answer")
if TYPE_CHECKING:
    _Question = Callable[[Tool], Callable[[Path, tuple[str, ...], Path, str, str], _Answer]]
MAX_TRIALS = 8  # units that are compiled if several could define the kernel


def _ask(command: CompileCommand, wanted: Wanted, question: _Question[_Answer]) -> _Answer | None:
    """Ask a compiler about a unit with its command; None if the compiler is missing or fails."""
    try:
        return _ask_or_raise(command, wanted, question)
    except DeviceError:
        return None


def _ask_or_raise(command: CompileCommand, wanted: Wanted, question: _Question[_Answer]) -> _Answer:
    flags = wanted.toolchain.choose_flags(command, wanted.defines)
    ask = question(wanted.find_tool(command))
    return ask(command.file, flags, command.directory, wanted.target, wanted.symbol_alone)


def yields_kernel(command: CompileCommand, wanted: Wanted) -> bool:
    """Whether a unit, compiled without optimisation and only for the device, has the kernel's symbol."""
    return bool(_ask(command, wanted, lambda tool: tool.yields))


def find_definition(command: CompileCommand, wanted: Wanted) -> tuple[Path, int] | None:
    """Return where a unit defines the kernel, according to its compiler; None if that is not known."""
    found = _ask(command, wanted, lambda tool: tool.find_definition)
    if found is None:
        return None
    path = (command.directory / found[0]).resolve()
    return (path, found[1]) if path.is_file() else None


def makes_same_code(command: CompileCommand, wanted: Wanted) -> bool:
    """Whether a unit, compiled with its command, gives the captured instructions."""
    return compare_code(command, wanted) is True


def read_headers(command: CompileCommand, wanted: Wanted) -> Headers | None:
    """Return the files that a unit includes, according to its compiler; None if that fails. Runs once."""
    flags = wanted.toolchain.choose_flags(command, wanted.defines)
    key = command.file, command.directory, command.compiler, flags
    if key not in wanted.read:
        try:
            tool = wanted.find_tool(command)
            wanted.read[key] = tool.list_headers(flags, command.file, command.directory, wanted.target)
        except DeviceError:
            wanted.read[key] = None
    return wanted.read[key]


def compare_code(command: CompileCommand, wanted: Wanted) -> bool | None:
    """Whether a unit gives the captured instructions; None if it gives none, or cannot be compiled."""
    try:
        code = compile_device_code(command, wanted)
    except DeviceError:
        return None
    made = None if code is None else wanted.toolchain.read_kernel_code(code, wanted.symbol_alone)
    captured = wanted.toolchain.read_kernel_code(wanted.code_object, wanted.symbol)
    return None if made is None or captured is None else made == captured


def try_shortcuts(command: CompileCommand, wanted: Wanted, edited: Path) -> Iterator[Shortcut]:
    """Compile a unit for the kernel in faster ways, the fastest first, as far as they are worth their time.

    Raises DeviceError if the compiler is missing.
    """
    if RELOCATABLE.intersection(command.arguments):
        return iter(())  # other units are linked in
    headers = read_headers(command, wanted)
    read = sum(path.stat().st_size for path in headers.paths if path.is_file()) if headers else 0
    one_kernel = len(read_code_object(wanted.code_object).kernels) > WORTH_OTHERS
    if not one_kernel and read < WORTH_BYTES:
        return iter(())
    flags = wanted.toolchain.choose_flags(command, wanted.defines)
    unit = KernelUnit(command.file, flags, command.directory, wanted.target, wanted.symbol_alone)
    tool = wanted.find_tool(command)
    return tool.try_shortcuts(unit, edited if read >= WORTH_BYTES else None, one_kernel=one_kernel)


def compile_device_code(
    command: CompileCommand, wanted: Wanted, flags: tuple[str, ...] | None = None
) -> bytes | None:
    """Compile a unit once, and return its code object; None if the compiler makes no instructions.

    Other units whose device code it uses are linked in.
    flags: used instead of the build's.
    Raises DeviceError if the compiler is missing or fails.
    """
    used = wanted.toolchain.choose_flags(command, wanted.defines) if flags is None else flags
    key = command.file, command.directory, command.compiler, used
    if key not in wanted.made:
        try:
            tool = wanted.find_tool(command)
            linked = link_code(command, wanted, used)
            wanted.made[key] = (
                tool.compile_device_code(command.file, used, command.directory, wanted.target)
                if linked is None
                else linked
            )
        except DeviceError as error:
            wanted.made[key] = error
    made = wanted.made[key]
    if isinstance(made, DeviceError):
        raise made
    return made
