"""Chooses one of several definitions where no compile command is known: by compiling each with assumed flags.

The definition whose unit gives the captured instructions is the one. If no definition gives them, or several
do, the user is told how to name the file.
"""

from __future__ import annotations

import os
import shlex
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from kerncap_stages.code.kernel_facts import strip_unit
from kerncap_stages.code.read import read_code_object
from kerncap_stages.errors import ArtifactError, DeviceError
from kerncap_stages.locate.assumed import assume_commands
from kerncap_stages.locate.choosing import Choice, choose_copy, choose_first, find_definition_at
from kerncap_stages.locate.notes import list_places
from kerncap_stages.locate.trials import compile_device_code, find_definition
from kerncap_stages.locate.units import choose_command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.locate.definitions import Definition
    from kerncap_stages.locate.wanted import Wanted

_MAX_FILES = 32  # files whose definitions are tried
_MAX_AT_OTHER_LEVELS = 8  # units that are also tried with other optimisation levels
_MAX_THREADS = 8
_NEXT = "name the right file with --source-dir FILE, or give a compile_commands.json that has its unit"


class _Made(Enum):
    SAME = auto()
    OTHER = auto()  # the kernel, with other instructions
    NO_KERNEL = auto()
    UNKNOWN = auto()  # the unit is not known, or does not compile with the assumed flags


@dataclass(frozen=True)
class Tried:
    """The definition that was chosen; without one, why none was, and what to do."""

    choice: Choice | None
    problem: str | None = None


def try_definitions(
    candidates: Sequence[Definition], roots: Sequence[Path], wanted: Wanted, consulted: Consulted
) -> Tried:
    """Compile the units of several definitions with assumed flags, and choose the one that fits."""
    paths = list(dict.fromkeys(definition.path for definition in candidates))
    one_file = len(paths) == 1
    absent = wanted.explain_no_compiler()
    if absent is not None:
        return Tried(None, None if one_file else f"none could be compiled: {absent}; {_NEXT}")
    gives = f"the captured instructions with `{shlex.join(wanted.assumed_command)}`"
    tried = paths[:_MAX_FILES]
    commands = {path: _assume_command(path, roots, wanted, consulted) for path in tried}
    with ThreadPoolExecutor(min(_MAX_THREADS, len(os.sched_getaffinity(0)))) as pool:
        answers = pool.map(lambda path: _make(commands[path], wanted), tried)
        made = dict(zip(tried, answers, strict=True))
    same = [path for path, answer in made.items() if answer is _Made.SAME]
    note = f"of {len(candidates)} definitions, this one gives {gives}"
    if not same and sum(answer is _Made.OTHER for answer in made.values()) <= _MAX_AT_OTHER_LEVELS:
        same = [
            path for path, answer in made.items() if answer is _Made.OTHER and _fits(commands[path], wanted)
        ]
        if same:
            gives = "the captured instructions with another optimisation level, or fast math"
            note = f"of {len(candidates)} definitions, this one gives {gives}"
    if not same and len(tried) == len(paths):
        same = _find_only_maker(made)
        note = f"of {len(candidates)} definitions, only this one makes the captured kernel"
    if len(same) > 1:
        same = [path for path in same if _makes_all(commands[path], wanted)] or same
    found = [_locate(commands[path], path, candidates, wanted) for path in same]
    if len(found) == 1:
        return Tried(replace(found[0], note=found[0].note or note))
    if found and (copy := choose_copy(found, consulted)):
        return Tried(copy)
    if one_file:
        return Tried(None)
    if len(found) == len(candidates):
        return Tried(None, f"all of them give {gives}; {_NEXT}")
    if found:
        places = list_places([choice.definition for choice in found])
        return Tried(None, f"{len(found)} of them give {gives}: {places}; {_NEXT}")
    asked = f"none of the first {len(tried)} files gives" if len(tried) < len(paths) else "none gives"
    return Tried(None, f"{asked} {gives}, which was assumed; {_NEXT}")


def _assume_command(
    path: Path, roots: Sequence[Path], wanted: Wanted, consulted: Consulted
) -> CompileCommand | None:
    """Assume the command of the file itself, or else of the unit that makes the kernel of a header."""
    commands = assume_commands(path, roots, wanted.assumed_command, consulted)
    own = next((command for command in commands if command.file == path.resolve()), None)
    return own or choose_command(commands, wanted, consulted)


def _make(command: CompileCommand | None, wanted: Wanted, flags: tuple[str, ...] | None = None) -> _Made:
    """Compile a unit, and say what it makes."""
    captured = wanted.toolchain.read_kernel_code(wanted.code_object, wanted.symbol)
    try:
        code = None if command is None else compile_device_code(command, wanted, flags)
    except DeviceError:
        code = None
    if code is None or captured is None:
        return _Made.UNKNOWN
    made = wanted.toolchain.read_kernel_code(code, wanted.symbol_alone)
    if made is None:
        return _Made.NO_KERNEL
    return _Made.SAME if made == captured else _Made.OTHER


def _fits(command: CompileCommand | None, wanted: Wanted) -> bool:
    """Whether a unit gives the captured instructions with another optimisation level, or fast math."""
    if command is None:
        return False
    flags = wanted.toolchain.choose_flags(command, wanted.defines)
    levels = wanted.toolchain.list_other_levels(flags).values()
    return any(_make(command, wanted, changed) is _Made.SAME for changed in levels)


def _makes_all(command: CompileCommand | None, wanted: Wanted) -> bool:
    """Whether a unit gives the captured instructions of every kernel of the code object."""
    read = wanted.toolchain.read_kernel_code
    try:
        symbols = list(read_code_object(wanted.code_object).kernels)
        code = None if command is None else compile_device_code(command, wanted)
    except (ArtifactError, DeviceError):
        return False
    return code is not None and all(
        read(code, strip_unit(symbol)) == read(wanted.code_object, symbol) for symbol in symbols
    )


def _find_only_maker(made: dict[Path, _Made]) -> list[Path]:
    """Find the only file that makes the kernel, if all others compile and do not make it."""
    makers = [path for path, answer in made.items() if answer is _Made.OTHER]
    others = [answer for answer in made.values() if answer is not _Made.OTHER]
    return makers if len(makers) == 1 and all(answer is _Made.NO_KERNEL for answer in others) else []


def _locate(
    command: CompileCommand | None, path: Path, candidates: Sequence[Definition], wanted: Wanted
) -> Choice:
    """Find which definition of a file its unit compiles. No command: it is not one of the build's."""
    own = [definition for definition in candidates if definition.path == path]
    if len(own) > 1 and command is not None:
        place = find_definition(command, wanted)
        if place is None:
            return choose_first(own, ())
        return Choice(find_definition_at(*place, own), None, is_tried=True)
    return Choice(own[0], None, is_tried=True)
