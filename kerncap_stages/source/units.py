"""Choosing the translation unit that compiles a kernel, and its compile command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError
from kerncap_stages.source.compile_commands import CompileCommand, commands_for
from kerncap_stages.source.includes import include_folders, included_files, note_absent
from kerncap_stages.source.trials import MOST_TRIALS, Wanted, makes_same_code, yields_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.source.consulted import Consulted
    from kerncap_stages.source.toolchain import Tool, Toolchain


@dataclass(frozen=True)
class Unit:
    """A translation unit with everything it reads. ``command`` is None where no build is known."""

    path: Path
    command: CompileCommand | None
    headers: tuple[Path, ...]
    headers_by_compiler: bool
    tool: Tool | None = None  # that was asked


def possible_commands(
    definition_file: Path, database: Sequence[CompileCommand], toolchain: Toolchain, consulted: Consulted
) -> list[CompileCommand]:
    """Entries that compile the file itself, else those of units that include it."""
    direct = commands_for(definition_file, database)
    if direct:
        return direct
    wanted = definition_file.resolve()
    return [command for command in database if wanted in reads(command, toolchain, consulted)]


def reads(command: CompileCommand, toolchain: Toolchain, consulted: Consulted) -> Iterator[Path]:
    """Local files that the unit of a command includes, by their text."""
    folders = include_folders(toolchain.flags(command))
    yield from (path.resolve() for path in included_files(command.file, folders, consulted))


def choose_command(
    commands: Sequence[CompileCommand], wanted: Wanted, consulted: Consulted
) -> CompileCommand | None:
    """The command whose unit really yields the kernel; only asked of the compiler when there is a choice.

    Where several yield it, as when one file is built twice with different flags, the one that makes the very
    instructions that were captured; else the first.
    """
    flags = wanted.toolchain.flags
    different = list({(command.file, flags(command)): command for command in commands}.values())
    if len(different) <= 1:
        return different[0] if different else None
    name = wanted.base_name.encode()
    # Units that name the kernel are likelier to instantiate it than those that only include its header.
    different.sort(key=lambda command: name not in (consulted.read(command.file) or b""))
    yielding = [command for command in different[:MOST_TRIALS] if yields_kernel(command, wanted)]
    if len(yielding) > 1:
        same = (command for command in yielding if makes_same_code(command, wanted))
        return next(same, yielding[0])
    return yielding[0] if yielding else None


def describe_unit(
    definition_file: Path,
    command: CompileCommand | None,
    wanted: Wanted,
    compiler: str | None,
    consulted: Consulted,
) -> tuple[Unit, str | None]:
    """The unit with its headers, and why they were not the compiler's own where they are not."""
    path = command.file if command else definition_file
    flags = (
        wanted.toolchain.flags(command, wanted.defines)
        if command
        else tuple(f"-D{define}" for define in wanted.defines)
    )
    directory = command.directory if command else path.parent
    folders = include_folders(flags)
    problem: str | None = None
    chosen = compiler or (command.compiler if command else None)
    if chosen is not None:
        try:
            tool = wanted.toolchain.find(chosen, trusted=compiler is not None)
            consulted.exists(Path(tool.path))
            headers = tool.local_headers(flags, path, directory, wanted.target)
            note_absent((path, *headers), folders, consulted)
            return Unit(path, command, tuple(headers), headers_by_compiler=True, tool=tool), None
        except DeviceError as error:
            problem = str(error)
    headers = included_files(path, folders, consulted)
    return Unit(path, command, tuple(headers), headers_by_compiler=False), problem
