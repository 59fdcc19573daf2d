"""Chooses one of several definitions, or finds a definition that no text shows, by compiling units."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kerncap_stages.locate.definitions import Definition
from kerncap_stages.locate.trials import MAX_TRIALS, find_definition, makes_same_code
from kerncap_stages.locate.units import MAX_UNITS, choose_command, find_possible_commands, find_read_files
from kerncap_stages.text.formats import list_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.locate.wanted import Wanted

_MAX_COPIES = 5  # that are named
_MAKES_KERNELS = re.compile(rb"__global__|\(\s*global\s*\)")


@dataclass(frozen=True)
class Choice:
    """A definition, and the command that compiles it, if one is known.

    note: how it was chosen. is_tried: by compiling it with assumed flags.
    """

    definition: Definition
    command: CompileCommand | None
    note: str | None = None
    is_tried: bool = False


def has_commands(
    candidates: Sequence[Definition],
    commands: Sequence[CompileCommand],
    wanted: Wanted,
    consulted: Consulted,
) -> bool:
    """Whether a command of the build compiles the file of one of the definitions."""
    paths = dict.fromkeys(definition.path for definition in candidates)
    return any(find_possible_commands(path, commands, wanted, consulted) for path in paths)


def choose(
    candidates: Sequence[Definition],
    commands: Sequence[CompileCommand],
    wanted: Wanted,
    consulted: Consulted,
) -> Choice | None:
    """Choose the definition; of several, the one from which a compile command makes the kernel."""
    possible = [
        (definition, command)
        for definition in candidates
        for command in find_possible_commands(definition.path, commands, wanted, consulted)
    ]
    proven: list[Choice] = []
    if len(candidates) > 1:
        proven = _ask_compiler((command for _, command in possible), candidates, wanted)
    if not proven:
        for definition in candidates:
            own = [command for each, command in possible if each is definition]
            command = choose_command(own, wanted, consulted)
            if command is not None:
                proven.append(Choice(definition, command))
    best = _choose_best(proven, wanted, consulted)
    if best is not None:
        return best
    if len({definition.path for definition in candidates}) == 1:
        first = choose_first(candidates, proven)
        return (
            first if proven or not possible else replace(first, note=_explain_no_kernel(possible, first.note))
        )
    return None


def _explain_no_kernel(possible: Sequence[tuple[Definition, CompileCommand]], note: str | None) -> str:
    """Say that none of the compiled units that include the definition makes the kernel."""
    count = len({command.file for _, command in possible})
    asked = f"none of the first {MAX_UNITS} of {count}" if count > MAX_UNITS else f"none of the {count}"
    text = (
        f"{asked} units that include the definition makes this kernel; give a compile_commands.json "
        "that lists the kernel's unit"
    )
    return f"{note}; {text}" if note else text


def find_by_compiling(
    commands: Sequence[CompileCommand], wanted: Wanted, consulted: Consulted
) -> Choice | None:
    """Find a definition that no text shows, as if macros make it: the compiler knows its line."""
    name = wanted.base_name.encode()

    def read_texts(command: CompileCommand) -> list[bytes]:
        files = (command.file, *find_read_files(command, wanted.toolchain, consulted))
        return [consulted.read(file) or b"" for file in files]

    likely: list[tuple[bool, CompileCommand]] = []
    for command in commands:
        together = read_texts(command)
        named = any(name in text for text in together)
        pastes = any(b"##" in text for text in together)
        if (named or pastes) and any(_MAKES_KERNELS.search(text) for text in together):
            likely.append((not named, command))
    likely.sort(key=lambda each: each[0])
    return _choose_best(_ask_compiler((command for _, command in likely), (), wanted), wanted, consulted)


def _ask_compiler(
    commands: Iterable[CompileCommand], candidates: Sequence[Definition], wanted: Wanted
) -> list[Choice]:
    """Compile units, and return the definition that each of them compiles, with its command."""
    flags = wanted.toolchain.choose_flags
    different = {(command.file, flags(command)): command for command in commands}
    found: list[Choice] = []
    for command in list(different.values())[:MAX_TRIALS]:
        place = find_definition(command, wanted)
        if place is not None:
            found.append(Choice(find_definition_at(*place, candidates), command))
    return found


def find_definition_at(path: Path, line: int, candidates: Sequence[Definition]) -> Definition:
    """Return the candidate at a line that the compiler named; else a definition of that line alone."""
    for candidate in candidates:
        if candidate.path.resolve() == path and candidate.line <= line + 1 and line <= candidate.last_line:
            return candidate
    return Definition(path, line, line, (), is_template=False)


def _choose_best(proven: Sequence[Choice], wanted: Wanted, consulted: Consulted) -> Choice | None:
    """Choose the only choice, or the one that gives the captured instructions.

    Kernels in the anonymous namespaces of several units may have the same name.
    """
    if len(proven) > 1:
        some = proven[:MAX_TRIALS]
        same = [each for each in some if each.command and makes_same_code(each.command, wanted)]
        proven = same or proven
        places = dict.fromkeys((each.definition.path, each.definition.line) for each in proven)
        if len(places) > 1:
            return choose_copy(proven, consulted)
    return proven[0] if proven else None


def choose_copy(proven: Sequence[Choice], consulted: Consulted) -> Choice | None:
    """Choose the first of several files with the same text, such as a header that a build copies."""
    first, *others = proven
    told = {(consulted.read(each.definition.path), each.definition.line) for each in proven}
    if len(told) > 1 or None in (text for text, _ in told):
        return None
    copies = dict.fromkeys(each.definition.path for each in others)
    copies.pop(first.definition.path, None)
    listed = list_first([str(path) for path in copies], _MAX_COPIES)
    note = f"{first.definition.path} was chosen, the first of {len(copies) + 1} files; same text: {listed}"
    return replace(first, note=f"{first.note}; {note}" if first.note else note)


def choose_first(candidates: Sequence[Definition], proven: Sequence[Choice]) -> Choice:
    """Choose the first of several definitions in one file: they share the command and the headers."""
    lines = ", ".join(str(definition.line) for definition in candidates)
    note = f"{len(candidates)} definitions fit, at lines {lines}, and no compile command tells which it is"
    command = proven[0].command if proven else None
    # Its parameters are not known either: the types of outputs must not come from another kernel.
    definition = replace(candidates[0], parameters=()) if len(candidates) > 1 else candidates[0]
    return Choice(definition, command, note if len(candidates) > 1 else None)
