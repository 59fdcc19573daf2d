"""Chooses the translation unit that compiles a kernel, and its compile command."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.compile_commands import CompileCommand, find_commands_for
from kerncap_stages.compilers.includes import find_included_files, list_include_folders, note_absent
from kerncap_stages.compilers.objects import names_kernel
from kerncap_stages.errors import DeviceError
from kerncap_stages.locate.trials import MAX_TRIALS, makes_same_code, read_headers, yields_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.compilers.toolchain import Tool, Toolchain
    from kerncap_stages.locate.wanted import Wanted


MAX_UNITS = 64  # units that are compiled to see whether they define a kernel
_MAX_PREPROCESSED = 16  # units that are preprocessed to list system headers, if no object names the kernel


@dataclass(frozen=True)
class Unit:
    """A translation unit and the headers that it includes. ``command`` is None if no build is known."""

    path: Path
    command: CompileCommand | None
    headers: tuple[Path, ...]
    headers_by_compiler: bool
    tool: Tool | None = None  # the compiler that listed the headers


def find_possible_commands(
    definition_file: Path, database: Sequence[CompileCommand], asked: Wanted, consulted: Consulted
) -> list[CompileCommand]:
    """Find the commands that compile the file itself; if there are none, those of units that include it."""
    toolchain = asked.toolchain
    direct = find_commands_for(definition_file, database)
    if direct:
        return direct
    wanted = definition_file.resolve()
    found = [command for command in database if wanted in find_read_files(command, toolchain, consulted)]
    if found:
        return found
    # The file may belong to a library, in a folder that compilers search without a flag.
    for folder in toolchain.list_own_folders(database):
        if wanted.is_relative_to(folder.resolve()):
            told = [_add_folder(command, folder) for command in database]
            return [command for command in told if wanted in find_read_files(command, toolchain, consulted)]
    if not is_system_file(wanted, database, asked):
        return []
    return [
        command for command, headers in read_system_headers(database, asked, consulted) if wanted in headers
    ]


def is_system_file(path: Path, database: Sequence[CompileCommand], wanted: Wanted) -> bool:
    """Whether a file is in a folder that one of the compilers searches without a flag."""
    for command in {command.compiler: command for command in database}.values():
        try:
            folders = wanted.find_tool(command).list_system_folders(wanted.target)
        except DeviceError:
            continue
        if any(path.is_relative_to(folder) for folder in folders):
            return True
    return False


def read_system_headers(
    database: Sequence[CompileCommand], wanted: Wanted, consulted: Consulted
) -> list[tuple[CompileCommand, set[Path]]]:
    """Ask the compilers which headers of the toolchain's folders units include.

    Only units whose object files name the kernel are asked; if there are none, the first few units.
    """
    flags = wanted.toolchain.choose_flags
    different = list({(command.file, flags(command)): command for command in database}.values())
    first = [command for command in different if names_kernel(command, wanted.symbol, consulted)]
    some = first[:MAX_UNITS] or different[:_MAX_PREPROCESSED]
    with ThreadPoolExecutor(min(MAX_TRIALS, len(os.sched_getaffinity(0)))) as pool:
        answers = list(pool.map(lambda command: read_headers(command, wanted), some))
    return [
        (command, {path.resolve() for path in headers.list_toolchain()})
        for command, headers in zip(some, answers, strict=True)
        if headers is not None
    ]


def _add_folder(command: CompileCommand, folder: Path) -> CompileCommand:
    """Add an include folder that is searched anyway: the generated project then also searches its copy."""
    compiler, *rest = command.arguments
    return replace(command, arguments=(compiler, f"-I{folder}", *rest))


def find_read_files(command: CompileCommand, toolchain: Toolchain, consulted: Consulted) -> Iterator[Path]:
    """Yield the local files that the unit of a command includes, found by reading their text."""
    folders = list_include_folders(toolchain.choose_flags(command))
    yield from (path.resolve() for path in find_included_files(command.file, folders, consulted))


def choose_command(
    commands: Sequence[CompileCommand], wanted: Wanted, consulted: Consulted
) -> CompileCommand | None:
    """Choose the command whose unit defines the kernel. Units are compiled only if there is a choice.

    If several units define it, for instance one file that is built twice with different flags, the one that
    gives the captured instructions is chosen, else the first. A few units are compiled at a time, up to
    ``MAX_UNITS``.
    """
    flags = wanted.toolchain.choose_flags
    different = list({(command.file, flags(command)): command for command in commands}.values())
    if len(different) <= 1:
        return different[0] if different else None
    name = wanted.base_name.encode()
    # A unit that names the kernel is more likely to instantiate it than one that only includes its header.
    different.sort(key=lambda command: name not in (consulted.read(command.file) or b""))
    # A unit whose object file names the kernel almost certainly defines it.
    first = [command for command in different if names_kernel(command, wanted.symbol, consulted)]
    others = [command for command in different if command not in first][:MAX_UNITS]
    yielding: list[CompileCommand] = []
    few = [others[at : at + MAX_TRIALS] for at in range(0, len(others), MAX_TRIALS)]
    for some in (first[:MAX_UNITS], *few):
        with ThreadPoolExecutor(min(MAX_TRIALS, len(os.sched_getaffinity(0)))) as pool:
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
    """Describe a unit with its headers; also returns why the compiler could not list them, if so."""
    path = command.file if command else definition_file
    flags = (
        wanted.toolchain.choose_flags(command, wanted.defines)
        if command
        else tuple(f"-D{define}" for define in wanted.defines)
    )
    directory = command.directory if command else path.parent
    folders = list_include_folders(flags)
    problem: str | None = None
    chosen = compiler or (command.compiler if command else None)
    if chosen is not None:
        try:
            tool = wanted.toolchain.find_tool(chosen, trusted=compiler is not None)
            consulted.exists(Path(tool.path))
            headers = tool.list_headers(flags, path, directory, wanted.target).list_local(definition_file)
            note_absent((path, *headers), folders, consulted)
            return Unit(path, command, tuple(headers), headers_by_compiler=True, tool=tool), None
        except DeviceError as error:
            problem = str(error)
    headers = find_included_files(path, folders, consulted)
    return Unit(path, command, tuple(headers), headers_by_compiler=False), problem
