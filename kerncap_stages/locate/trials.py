"""Asking the compiler which compile command made the captured kernel, where several could have."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kerncap_stages.errors import DeviceError
from kerncap_stages.locate.linking import linked_code

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.dependencies import Headers
    from kerncap_stages.compilers.toolchain import Tool
    from kerncap_stages.locate.wanted import Wanted

_Answer = TypeVar("_Answer")
MOST_TRIALS = 8  # compilations, where several units could hold the kernel


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


def headers_of(command: CompileCommand, wanted: Wanted) -> Headers | None:
    """What a unit includes as its compiler has it, asked once; None where that cannot be asked or fails."""
    flags = wanted.toolchain.flags(command, wanted.defines)
    key = command.file, command.directory, command.compiler, flags
    if key not in wanted.read:
        try:
            tool = wanted.tool_for(command)
            wanted.read[key] = tool.headers(flags, command.file, command.directory, wanted.target)
        except DeviceError:
            wanted.read[key] = None
    return wanted.read[key]


def compares_code(command: CompileCommand, wanted: Wanted) -> bool | None:
    """The same; None where the unit gives no instructions to compare, as without its compiler."""
    try:
        code = device_code(command, wanted)
    except DeviceError:
        return None
    made = None if code is None else wanted.toolchain.kernel_code(code, wanted.alone)
    captured = wanted.toolchain.kernel_code(wanted.code_object, wanted.symbol)
    return None if made is None or captured is None else made == captured


def device_code(
    command: CompileCommand, wanted: Wanted, flags: tuple[str, ...] | None = None
) -> bytes | None:
    """The code object of a unit, compiled once as the build does; None where that holds no instructions.

    Other units whose device code it uses are linked in.
    ``flags``: instead of those of the build.
    Raises DeviceError if there is no compiler, or it fails.
    """
    used = wanted.toolchain.flags(command, wanted.defines) if flags is None else flags
    key = command.file, command.directory, command.compiler, used
    if key not in wanted.made:
        try:
            tool = wanted.tool_for(command)
            linked = linked_code(command, wanted, used)
            wanted.made[key] = (
                tool.device_code(command.file, used, command.directory, wanted.target)
                if linked is None
                else linked
            )
        except DeviceError as error:
            wanted.made[key] = error
    made = wanted.made[key]
    if isinstance(made, DeviceError):
        raise made
    return made
