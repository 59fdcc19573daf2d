"""Choosing the translation unit that compiles a kernel, and its compile command."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.compile_commands import CompileCommand, commands_for
from kerncap_stages.compilers.includes import include_folders, included_files, note_absent
from kerncap_stages.compilers.objects import launches
from kerncap_stages.errors import DeviceError
from kerncap_stages.locate.trials import MOST_TRIALS, headers_of, makes_same_code, yields_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.compilers.toolchain import Tool, Toolchain
    from kerncap_stages.locate.wanted import Wanted


MOST_UNITS = 64  # that are asked whether they yield a kernel
_MOST_PREPROCESSED = 16  # to see what they read of the toolchain's headers, where nothing tells them apart


@dataclass(frozen=True)
class Unit:
    """A translation unit with everything it reads. ``command`` is None where no build is known."""

    path: Path
    command: CompileCommand | None
    headers: tuple[Path, ...]
    headers_by_compiler: bool
    tool: Tool | None = None  # that was asked


def possible_commands(
    definition_file: Path, database: Sequence[CompileCommand], asked: Wanted, consulted: Consulted
) -> list[CompileCommand]:
    """Entries that compile the file itself, else those of units that include it."""
    toolchain = asked.toolchain
    direct = commands_for(definition_file, database)
    if direct:
        return direct
    wanted = definition_file.resolve()
    found = [command for command in database if wanted in reads(command, toolchain, consulted)]
    if found:
        return found
    # A library's, in folders that compilers look into without being told.
    for folder in toolchain.own_folders(database):
        if wanted.is_relative_to(folder.resolve()):
            told = [_with_folder(command, folder) for command in database]
            return [command for command in told if wanted in reads(command, toolchain, consulted)]
    if not is_system_file(wanted, database, asked):
        return []
    return [command for command, headers in system_headers(database, asked, consulted) if wanted in headers]


def is_system_file(path: Path, database: Sequence[CompileCommand], wanted: Wanted) -> bool:
    """Whether a file lies where one of the compilers looks without being told."""
    for command in {command.compiler: command for command in database}.values():
        try:
            folders = wanted.tool_for(command).system_folders(wanted.target)
        except DeviceError:
            continue
        if any(path.is_relative_to(folder) for folder in folders):
            return True
    return False


def system_headers(
    database: Sequence[CompileCommand], wanted: Wanted, consulted: Consulted
) -> list[tuple[CompileCommand, set[Path]]]:
    """What units read of the toolchain's headers, as their compilers have it.

    Those whose object files name the kernel, else the first few.
    """
    flags = wanted.toolchain.flags
    different = list({(command.file, flags(command)): command for command in database}.values())
    first = [command for command in different if launches(command, wanted.symbol, consulted)]
    some = first[:MOST_UNITS] or different[:_MOST_PREPROCESSED]
    with ThreadPoolExecutor(min(MOST_TRIALS, len(os.sched_getaffinity(0)))) as pool:
        answers = list(pool.map(lambda command: headers_of(command, wanted), some))
    return [
        (command, {path.resolve() for path in headers.of_toolchain()})
        for command, headers in zip(some, answers, strict=True)
        if headers is not None
    ]


def _with_folder(command: CompileCommand, folder: Path) -> CompileCommand:
    """The command with a folder named that is looked into anyway: a project's copy of it is, too, then."""
    compiler, *rest = command.arguments
    return replace(command, arguments=(compiler, f"-I{folder}", *rest))


def reads(command: CompileCommand, toolchain: Toolchain, consulted: Consulted) -> Iterator[Path]:
    """Local files that the unit of a command includes, by their text."""
    folders = include_folders(toolchain.flags(command))
    yield from (path.resolve() for path in included_files(command.file, folders, consulted))


def choose_command(
    commands: Sequence[CompileCommand], wanted: Wanted, consulted: Consulted
) -> CompileCommand | None:
    """The command whose unit really yields the kernel; only asked of the compiler when there is a choice.

    Where several yield it, as when one file is built twice with different flags, the one that makes the very
    instructions that were captured; else the first. Units are asked a few at a time, up to ``MOST_UNITS``.
    """
    flags = wanted.toolchain.flags
    different = list({(command.file, flags(command)): command for command in commands}.values())
    if len(different) <= 1:
        return different[0] if different else None
    name = wanted.base_name.encode()
    # Units that name the kernel are likelier to instantiate it than those that only include its header.
    different.sort(key=lambda command: name not in (consulted.read(command.file) or b""))
    # Those whose object file has it are nearly sure to.
    first = [command for command in different if launches(command, wanted.symbol, consulted)]
    others = [command for command in different if command not in first][:MOST_UNITS]
    yielding: list[CompileCommand] = []
    few = [others[at : at + MOST_TRIALS] for at in range(0, len(others), MOST_TRIALS)]
    for some in (first[:MOST_UNITS], *few):
        with ThreadPoolExecutor(min(MOST_TRIALS, len(os.sched_getaffinity(0)))) as pool:
            answers = list(pool.map(lambda command: yields_kernel(command, wanted), some))
        yielding = [command for command, answer in zip(some, answers, strict=True) if answer]
        if yielding:
            break
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
            headers = tool.headers(flags, path, directory, wanted.target).local(definition_file)
            note_absent((path, *headers), folders, consulted)
            return Unit(path, command, tuple(headers), headers_by_compiler=True, tool=tool), None
        except DeviceError as error:
            problem = str(error)
    headers = included_files(path, folders, consulted)
    return Unit(path, command, tuple(headers), headers_by_compiler=False), problem
