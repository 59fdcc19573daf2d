"""Choosing the translation unit that compiles a kernel, and its compile command."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError
from kerncap_stages.source.compile_commands import CompileCommand, commands_for, compile_flags
from kerncap_stages.source.dependencies import local_headers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.source.search import Consulted

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
_MAX_DEPTH = 64
_MAX_TRIALS = 8  # trial compilations, when several units could hold the instantiation


@dataclass(frozen=True)
class Unit:
    """A translation unit with everything it reads. ``command`` is None where no build is known."""

    path: Path
    command: CompileCommand | None
    headers: tuple[Path, ...]
    headers_by_compiler: bool


def included_files(path: Path, folders: Sequence[Path], consulted: Consulted) -> list[Path]:
    """Local files that ``path`` includes at any depth, found beside the includer or in ``folders``."""
    seen: dict[Path, None] = {}
    stack = [(path, 0)]
    while stack:
        current, depth = stack.pop()
        text = consulted.read(current)
        if text is None or depth > _MAX_DEPTH:
            continue
        for match in _INCLUDE.finditer(text):
            name = os.fsdecode(match[1])
            for place in (current.parent, *folders):
                candidate = Path(os.path.normpath(place / name))
                if candidate in seen or candidate == path:
                    break
                if consulted.exists(candidate):
                    seen[candidate] = None
                    stack.append((candidate, depth + 1))
                    break
    return list(seen)


def include_folders(flags: Sequence[str]) -> list[Path]:
    """The folders of ``-I``, ``-iquote`` and ``-isystem`` among flags made absolute."""
    folders: list[Path] = []
    words = iter(flags)
    for word in words:
        if word in ("-I", "-iquote", "-isystem", "-idirafter"):
            folders.append(Path(next(words, ".")))
        else:
            joined = next(
                (word[len(flag) :] for flag in ("-I", "-iquote", "-isystem") if word.startswith(flag)), ""
            )
            if joined:
                folders.append(Path(joined))
    return folders


def possible_commands(
    definition_file: Path, database: Sequence[CompileCommand], consulted: Consulted
) -> list[CompileCommand]:
    """Entries that compile the file itself, else those of units that include it."""
    direct = commands_for(definition_file, database)
    if direct:
        return direct
    wanted = definition_file.resolve()
    return [command for command in database if wanted in _reads(command, consulted)]


def _reads(command: CompileCommand, consulted: Consulted) -> Iterator[Path]:
    folders = include_folders(compile_flags(command))
    yield from (path.resolve() for path in included_files(command.file, folders, consulted))


def choose_command(
    commands: Sequence[CompileCommand],
    mangled_name: str,
    target: str,
    defines: Sequence[str],
    compiler: str | None,
) -> CompileCommand | None:
    """The command whose unit really yields the kernel; only asked of the compiler when there is a choice."""
    if len(commands) <= 1:
        return commands[0] if commands else None
    for command in commands[:_MAX_TRIALS]:
        if yields_kernel(command, mangled_name, target, defines, compiler):
            return command
    return None


def yields_kernel(
    command: CompileCommand, mangled_name: str, target: str, defines: Sequence[str], compiler: str | None
) -> bool:
    """Compile a unit to assembly, for the device alone, and look for the kernel's symbol."""
    flags = [flag for flag in compile_flags(command, defines) if not re.fullmatch(r"-O.", flag)]
    words = [compiler or command.compiler, "-x", "hip", f"--offload-arch={target}", "--offload-device-only"]
    result = subprocess.run(
        [*words, *flags, "-O0", "-w", "-S", "-o", "-", str(command.file)],
        cwd=command.directory,
        capture_output=True,
        check=False,
    )
    return (
        result.returncode == 0
        and re.search(rb"^" + re.escape(mangled_name.encode()) + rb":", result.stdout, re.MULTILINE)
        is not None
    )


def describe_unit(
    definition_file: Path,
    command: CompileCommand | None,
    defines: Sequence[str],
    target: str,
    compiler: str | None,
    consulted: Consulted,
) -> tuple[Unit, str | None]:
    """The unit with its headers, and why they were not the compiler's own where they are not."""
    path = command.file if command else definition_file
    flags = compile_flags(command, defines) if command else tuple(f"-D{define}" for define in defines)
    directory = command.directory if command else path.parent
    problem: str | None = None
    chosen = compiler or (command.compiler if command else None)
    if chosen is not None:
        try:
            headers = local_headers(chosen, flags, path, directory, target)
            for header in (path, *headers):
                consulted.read(header)
            return Unit(path, command, tuple(headers), headers_by_compiler=True), None
        except DeviceError as error:
            problem = str(error)
    headers = included_files(path, include_folders(flags), consulted)
    return Unit(path, command, tuple(headers), headers_by_compiler=False), problem
