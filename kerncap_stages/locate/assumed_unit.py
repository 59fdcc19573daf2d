"""Assumes the compile command of a definition whose build is not known, and describes its unit."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from kerncap_stages.locate.assumed import assume_commands
from kerncap_stages.locate.trials import compare_code, yields_kernel
from kerncap_stages.locate.units import choose_command, describe_unit, find_possible_commands

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.locate.units import Unit
    from kerncap_stages.locate.wanted import Wanted

# As clang and gcc, and nvcc's own front end, say it.
_MISSING_HEADER = re.compile(
    r"error: (?:'(?P<quoted>[^']+)' file not found|(?P<plain>\S+): No such file or directory)"
)


def assume_unit(
    definition_file: Path, roots: Sequence[Path], wanted: Wanted, consulted: Consulted
) -> tuple[Unit | None, str | None]:
    """Assume a command that the compiler accepts; returns its unit, and a note for the user.

    Without such a command, the note says why the compiler does not accept the first one.
    """
    words = wanted.assumed_command
    commands = assume_commands(definition_file, roots, words, consulted)
    if not commands:  # the definition is in one of the compiler's own folders
        others = assume_commands(None, roots, words, consulted)
        commands = find_possible_commands(definition_file, others, wanted, consulted)
    if not commands:
        return None, None
    chosen = choose_command(commands, wanted, consulted)
    command = chosen or commands[0]
    unit, problem = describe_unit(definition_file, command, wanted, wanted.compiler, consulted)
    shown = show_command(command, wanted)
    if problem is not None:
        return None, f"`{shown}` was tried: {problem}; {_advise(problem)}"
    if chosen is None or not unit.headers_by_compiler:
        return None, None
    return unit, (
        f"no compile command is known: `{shown}` is assumed"
        f"{describe_fit(command, wanted)}; to use another command, give a compile_commands.json with one "
        "entry (`cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON` makes one)"
    )


def _advise(problem: str) -> str:
    """Say what to do about an assumed command that the compiler does not accept."""
    flags = "give the program's flags in a compile_commands.json"
    if missing := _MISSING_HEADER.search(problem):
        header = missing["quoted"] or missing["plain"]
        return f"name the folder that holds {header} by another --source-dir, or {flags}"
    return f"if a macro is missing, give it with -D NAME=VALUE, or {flags}"


def show_command(command: CompileCommand, wanted: Wanted) -> str:
    """Write an assumed command as it is run, with the macros that the user gave."""
    *words, unit = command.arguments
    return shlex.join((*words, *(f"-D{define}" for define in wanted.defines), unit))


def describe_fit(command: CompileCommand, wanted: Wanted) -> str:
    """Say that a command gives other instructions, or no such kernel; nothing for the captured ones."""
    same = compare_code(command, wanted)
    if same is None:  # clang makes PTX, which has no instructions to compare
        return "" if yields_kernel(command, wanted) else ", which does not make this kernel"
    return "" if same else ", which does not give the captured instructions"
