"""Choosing the one definition of several, or finding one that no text shows: the compiler is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kerncap_stages.locate.definitions import Definition
from kerncap_stages.locate.trials import MOST_TRIALS, defined_at, makes_same_code
from kerncap_stages.locate.units import MOST_UNITS, choose_command, possible_commands, reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.locate.wanted import Wanted

_MAKES_KERNELS = re.compile(rb"__global__|\(\s*global\s*\)")


@dataclass(frozen=True)
class Choice:
    """A definition, and the command that compiles it, if one is known. ``note``: what it was decided by."""

    definition: Definition
    command: CompileCommand | None
    note: str | None = None


def choose(
    candidates: Sequence[Definition],
    commands: Sequence[CompileCommand],
    wanted: Wanted,
    consulted: Consulted,
) -> Choice | None:
    """Pick the one definition; where several fit, the one that a compile command proves."""
    possible = [
        (definition, command)
        for definition in candidates
        for command in possible_commands(definition.path, commands, wanted, consulted)
    ]
    proven: list[Choice] = []
    if len(candidates) > 1:
        proven = _asked((command for _, command in possible), candidates, wanted)
    if not proven:
        for definition in candidates:
            own = [command for each, command in possible if each is definition]
            command = choose_command(own, wanted, consulted)
            if command is not None:
                proven.append(Choice(definition, command))
    best = _best(proven, wanted, consulted)
    if best is not None:
        return best
    if len({definition.path for definition in candidates}) == 1:
        first = _first(candidates, proven)
        return first if proven or not possible else replace(first, note=_none_yields(possible, first.note))
    return None


def _none_yields(possible: Sequence[tuple[Definition, CompileCommand]], note: str | None) -> str:
    """Units that reach the definition are there, and none of those asked makes the kernel."""
    count = len({command.file for _, command in possible})
    asked = f"none of the first {MOST_UNITS} of {count}" if count > MOST_UNITS else f"none of the {count}"
    text = (
        f"{asked} units that read it makes this kernel under its compile command: a compile_commands.json "
        "with the entry of the one that does would decide"
    )
    return f"{note}; {text}" if note else text


def find_made(commands: Sequence[CompileCommand], wanted: Wanted, consulted: Consulted) -> Choice | None:
    """A definition that nothing in the text shows, as where macros make it: the compiler knows its line."""
    name = wanted.base_name.encode()

    def texts(command: CompileCommand) -> list[bytes]:
        files = (command.file, *reads(command, wanted.toolchain, consulted))
        return [consulted.read(file) or b"" for file in files]

    likely: list[tuple[bool, CompileCommand]] = []
    for command in commands:
        together = texts(command)
        named = any(name in text for text in together)
        pastes = any(b"##" in text for text in together)
        if (named or pastes) and any(_MAKES_KERNELS.search(text) for text in together):
            likely.append((not named, command))
    likely.sort(key=lambda each: each[0])
    return _best(_asked((command for _, command in likely), (), wanted), wanted, consulted)


def _asked(
    commands: Iterable[CompileCommand], candidates: Sequence[Definition], wanted: Wanted
) -> list[Choice]:
    """The definitions that compile commands lead to, each with the command."""
    flags = wanted.toolchain.flags
    different = {(command.file, flags(command)): command for command in commands}
    found: list[Choice] = []
    for command in list(different.values())[:MOST_TRIALS]:
        place = defined_at(command, wanted)
        if place is not None:
            found.append(Choice(_definition_at(*place, candidates), command))
    return found


def _definition_at(path: Path, line: int, candidates: Sequence[Definition]) -> Definition:
    for candidate in candidates:
        if candidate.path.resolve() == path and candidate.line <= line + 1 and line <= candidate.last_line:
            return candidate
    return Definition(path, line, line, (), is_template=False)


def _best(proven: Sequence[Choice], wanted: Wanted, consulted: Consulted) -> Choice | None:
    """The only one; of several, as of kernels of one name in units' own namespaces, the one captured."""
    if len(proven) > 1:
        some = proven[:MOST_TRIALS]
        same = [each for each in some if each.command and makes_same_code(each.command, wanted)]
        proven = same or proven
        places = dict.fromkeys((each.definition.path, each.definition.line) for each in proven)
        if len(places) > 1:
            return _of_copies(proven, consulted)
    return proven[0] if proven else None


def _of_copies(proven: Sequence[Choice], consulted: Consulted) -> Choice | None:
    """Of files of one content, as of a header that a build copies, that of the first compile command."""
    first, *others = proven
    told = {(consulted.read(each.definition.path), each.definition.line) for each in proven}
    if len(told) > 1 or None in (text for text, _ in told):
        return None
    copies = dict.fromkeys(each.definition.path for each in others)
    copies.pop(first.definition.path, None)
    paths = ", ".join(map(str, copies))
    note = f"{first.definition.path} is taken, first in the compile commands; the same text: {paths}"
    return replace(first, note=f"{first.note}; {note}" if first.note else note)


def _first(candidates: Sequence[Definition], proven: Sequence[Choice]) -> Choice:
    """File, command and headers are the same for all of them: only the line is not known."""
    lines = ", ".join(str(definition.line) for definition in candidates)
    note = f"{len(candidates)} definitions fit, at lines {lines}, and no compile command tells which it is"
    command = proven[0].command if proven else None
    # Nor are its parameters known: types of outputs must not come from another kernel's.
    definition = replace(candidates[0], parameters=()) if len(candidates) > 1 else candidates[0]
    return Choice(definition, command, note if len(candidates) > 1 else None)
