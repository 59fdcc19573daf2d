"""Which file tells how the project is built, and its commands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kerncap_stages.compilers.compile_commands import (
    DATABASE,
    find_database,
    load_database,
    without_own_compiler,
)
from kerncap_stages.compilers.ninja import is_ninja_file, ninja_commands
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
    """``path``: None where no build is known; ``problem``: of one that was found and cannot be read."""

    path: Path | None = None
    commands: tuple[CompileCommand, ...] = ()
    problem: str | None = None

    def why_no_command(self, file: Path) -> str:
        """For people, where none of the commands compiles ``file``."""
        if self.path is not None:
            # In another checkout, maybe.
            namesake = next((each.file for each in self.commands if each.file.name == file.name), None)
            next_step = (
                "if another build compiles it, name that one's with --compile-commands"
                if namesake is None
                else f"it compiles {namesake}: name that tree with --source-dir, or a build of {file.parent} "
                "with --compile-commands"
            )
            return (
                f"{self.path} has {count(len(self.commands), 'command')}, and none is of this file or of one "
                f"that is known to include it: {next_step}"
            )
        if self.problem is not None:
            return self.problem
        return "no compile_commands.json: make one with cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"


def read_database(
    near: Path | None, roots: Sequence[Path], options: Options, consulted: Consulted
) -> Database:
    """The file that the user names; else of the source folders, or of the definition's, ``near``.

    Raises UsageError for one that is not what it is called; a file that ninja cannot read counts as none,
    unless it is named.
    """
    if options.compile_commands is not None:
        return _read(named_database(options.compile_commands).resolve(), options, consulted)
    starts = (*roots, *((near,) if near else ()))
    path = _found(starts, consulted)
    if path is not None:
        return _read(path, options, consulted)
    path = _found(starts, consulted, NINJA_FILE)
    if path is None:
        return Database()
    try:
        return _read(path, options, consulted)
    except UsageError as error:
        return Database(problem=f"{error}; {error.hint}")


def named_database(path: Path) -> Path:
    """The file that the user names, or the one in a folder that the user names.

    Raises UsageError for a folder that has none, and for what is not there.
    """
    if path.is_dir():
        for name in (DATABASE, NINJA_FILE):
            if (path / name).is_file():
                return path / name
        raise UsageError(
            f"{path} holds no {DATABASE} and no {NINJA_FILE}",
            hint=f"name the build folder, or make one: cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -B {path}",
        )
    if not path.exists():
        raise UsageError(
            f"no such file or folder: {path}", hint=f"--compile-commands takes a {DATABASE}, or its folder"
        )
    return path


def _found(starts: Sequence[Path], consulted: Consulted, *name: str) -> Path | None:
    for start in starts:
        found = find_database(start if start.is_dir() else start.parent, consulted.exists, *name)
        if found is not None:
            return found
    return None


def _read(path: Path, options: Options, consulted: Consulted) -> Database:
    if is_ninja_file(path):
        commands = ninja_commands(path, consulted)
    else:
        consulted.read(path)
        commands = load_database(path)
    for file in {file for command in commands for file in command.response_files}:
        consulted.read(file)
    given = options.compiler is not None
    own = (replace(without_own_compiler(command), compiler_is_given=given) for command in commands)
    return Database(path, tuple(own))
