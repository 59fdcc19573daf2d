"""Finds and reads the file that lists the compile commands of a project."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kerncap_stages.compilers.compile_commands import (
    DATABASE,
    find_database,
    load_database,
    replace_own_compiler,
)
from kerncap_stages.compilers.ninja import is_ninja_file, read_ninja_commands
from kerncap_stages.errors import UsageError
from kerncap_stages.text.formats import count

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.locate.options import Options


NINJA_FILE = "build.ninja"


@dataclass(frozen=True)
class Database:
    """Compile commands. ``path``: None if no build is known; ``problem``: why a found file cannot be read."""

    path: Path | None = None
    commands: tuple[CompileCommand, ...] = ()
    problem: str | None = None

    def explain_no_command(self, file: Path) -> str:
        """Say why no command compiles ``file``, and what to do."""
        if self.path is not None:
            # The commands may be those of another checkout.
            namesake = next((each.file for each in self.commands if each.file.name == file.name), None)
            next_step = (
                "if another build compiles it, give that build's commands with --compile-commands"
                if namesake is None
                else f"it compiles {namesake}: give that source tree with --source-dir, or a build of "
                f"{file.parent} with --compile-commands"
            )
            return (
                f"{self.path} has {count(len(self.commands), 'command')}, but none for this file or for one "
                f"that is known to include it: {next_step}"
            )
        if self.problem is not None:
            return self.problem
        return "no compile_commands.json: make one with cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"


def read_database(
    near: Path | None, roots: Sequence[Path], options: Options, consulted: Consulted
) -> Database:
    """Read the file that the user names; else find one for the source folders, or for ``near``.

    near: the folder of the definition.
    Raises UsageError if a compile_commands.json, or a file that the user names, cannot be read. A ninja file
    that was only found becomes a ``problem``.
    """
    if options.compile_commands is not None:
        return _read(find_named_database(options.compile_commands).resolve(), options, consulted)
    starts = (*roots, *((near,) if near else ()))
    path = _find_nearby(starts, consulted)
    if path is not None:
        return _read(path, options, consulted)
    path = _find_nearby(starts, consulted, NINJA_FILE)
    if path is None:
        return Database()
    try:
        return _read(path, options, consulted)
    except UsageError as error:
        return Database(problem=f"{error}; {error.hint}")


def find_named_database(path: Path) -> Path:
    """Return the file that the user names, or the one in the folder that the user names.

    Raises UsageError if there is no such file or folder, or the folder has no such file.
    """
    if path.is_dir():
        for name in (DATABASE, NINJA_FILE):
            if (path / name).is_file():
                return path / name
        raise UsageError(
            f"{path} contains neither {DATABASE} nor {NINJA_FILE}",
            hint=f"give the build folder, or make one: cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -B {path}",
        )
    if not path.exists():
        raise UsageError(
            f"no such file or folder: {path}", hint=f"--compile-commands takes a {DATABASE}, or its folder"
        )
    return path


def _find_nearby(starts: Sequence[Path], consulted: Consulted, *name: str) -> Path | None:
    for start in starts:
        found = find_database(start if start.is_dir() else start.parent, consulted.exists, *name)
        if found is not None:
            return found
    return None


def _read(path: Path, options: Options, consulted: Consulted) -> Database:
    if is_ninja_file(path):
        commands = read_ninja_commands(path, consulted)
    else:
        consulted.read(path)
        commands = load_database(path)
    for file in {file for command in commands for file in command.response_files}:
        consulted.read(file)
    given = options.compiler is not None
    own = (replace(replace_own_compiler(command), compiler_is_given=given) for command in commands)
    return Database(path, tuple(own))
