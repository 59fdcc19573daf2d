"""From a capture to a finding: which definition, which translation unit, or which case of failure."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kerncap_stages.compilers.compile_commands import CompileCommand
from kerncap_stages.compilers.consulted import Consulted
from kerncap_stages.compilers.program_file import changed_since_built, working_folder
from kerncap_stages.compilers.toolchains import toolchain_of
from kerncap_stages.errors import DeviceError
from kerncap_stages.locate.argument_layouts import compiled_addresses
from kerncap_stages.locate.assumed import assumed_commands
from kerncap_stages.locate.choosing import choose, find_made
from kerncap_stages.locate.databases import read_database
from kerncap_stages.locate.definitions import Definition
from kerncap_stages.locate.failures import classify
from kerncap_stages.locate.linking import link_if_possible
from kerncap_stages.locate.notes import about_build, about_difference
from kerncap_stages.locate.search import (
    find_candidates,
    find_in_system,
    from_line_tables,
    in_same_folder,
    line_told,
)
from kerncap_stages.locate.trials import compares_code, yields_kernel
from kerncap_stages.locate.unedited import compare_unedited
from kerncap_stages.locate.units import Unit, choose_command, describe_unit, possible_commands, reads
from kerncap_stages.locate.wanted import Wanted
from kerncap_stages.manifests.source import Outcome, Unedited

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.code.kernel_names import KernelName
    from kerncap_stages.compilers.captured_code import CapturedCode
    from kerncap_stages.compilers.line_tables import LineTables
    from kerncap_stages.locate.choosing import Choice
    from kerncap_stages.locate.databases import Database
    from kerncap_stages.locate.options import Options
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.source import HeldAddress


@dataclass
class Finding:
    """What a search came to, with everything that it looked at."""

    outcome: Outcome
    explanation: str | None = None
    definition: Definition | None = None
    candidates: Sequence[Definition] = ()
    by_line_table: bool = False
    unit: Unit | None = None
    database: Path | None = None
    consulted: Consulted = field(default_factory=Consulted)
    assembly: bytes | None = None  # of the definition's file, where that is no source for a compiler
    unedited: Unedited | None = None
    linked: Sequence[Unit] = ()  # other units, whose device code the kernel's uses
    held: tuple[HeldAddress, ...] = ()


@dataclass(frozen=True)
class _Search:
    """What is known while a source is looked for."""

    capture: Capture
    code: CapturedCode
    name: KernelName
    tables: LineTables
    roots: Sequence[Path]
    guessed: bool  # the roots are no folders that the user named
    wanted: Wanted
    database: Database
    consulted: Consulted


def find_source(
    capture: Capture,
    code: CapturedCode,
    name: KernelName,
    tables: LineTables,
    roots: Sequence[Path],
    options: Options,
) -> Finding:
    """Search for the kernel's source; not finding it is a result.

    Definitions that fit come first, then the one of them that made the kernel, then its compile command.
    """
    consulted = Consulted()
    if not roots:
        consulted.exists(working_folder(capture))  # guessed, once it is there
    guessed = not options.source_dirs
    named = from_line_tables(tables, roots, name, consulted, guessed=guessed)
    candidates = [named] if named else find_candidates(roots, name, consulted)
    if not candidates:
        # The files that the code object was made from, where they still are.
        there = [path for path in tables.paths if consulted.exists(path)]
        candidates = find_candidates(there, name, consulted)
    near = candidates[0].path.parent if candidates else None
    database = read_database(near, roots, options, consulted)
    wanted = _wanted(capture, code, name, options, database)
    search = _Search(capture, code, name, tables, roots, guessed, wanted, database, consulted)
    likely = database.commands
    if not candidates:
        candidates = _candidates_of_units(search)
    if not candidates:
        if not likely:
            compiler = wanted.compiler or wanted.toolchain.assumed
            likely = tuple(assumed_commands(None, roots, compiler, consulted))
        # A library that is installed where the compiler looks anyway.
        candidates = find_in_system(likely, name, wanted, consulted)
    if candidates:
        choice = choose(candidates, database.commands, wanted, consulted)
    else:
        choice = _choose_made(search, likely)
    if choice is not None:
        return _found(search, choice, candidates, by_line_table=named is not None)
    if candidates:
        return _ambiguous(search, candidates)
    lost = _without_source(capture, code, name, tables, roots, consulted)
    return replace(lost, explanation=_joined(lost.explanation, database.problem))


def _wanted(
    capture: Capture, code: CapturedCode, name: KernelName, options: Options, database: Database
) -> Wanted:
    toolchain = toolchain_of(capture)
    return Wanted(
        toolchain,
        capture.kernel.mangled_name,
        name.base,
        toolchain.target(capture),
        code.code_object,
        options.defines,
        options.compiler,
        commands=tuple(database.commands),
    )


def _candidates_of_units(search: _Search) -> list[Definition]:
    """Definitions in units of the build, else in what these include, wherever that lies."""
    commands, consulted = search.database.commands, search.consulted
    units = [file for file in dict.fromkeys(command.file for command in commands) if file.is_file()]
    candidates = find_candidates(units, search.name, consulted)
    if candidates:
        return candidates
    toolchain = search.wanted.toolchain
    included = (path for command in commands for path in reads(command, toolchain, consulted))
    return find_candidates(list(dict.fromkeys(included)), search.name, consulted)


def _choose_made(search: _Search, likely: Sequence[CompileCommand]) -> Choice | None:
    """The definition of a kernel that no text shows: by compiling units, else by the line tables."""
    wanted, consulted, tables = search.wanted, search.consulted, search.tables
    choice = find_made(likely, wanted, consulted)
    if choice is not None:
        # An assumed command is none of the build's, which is told of the finding.
        return choice if likely is search.database.commands else replace(choice, command=None)
    line = line_told(tables, search.roots, consulted, guessed=search.guessed)
    if line is None:
        return None
    choice = choose([line], search.database.commands, wanted, consulted)
    built = tables.definition[0] if tables.definition else None
    if choice and built and not in_same_folder(line.path, built):
        note = f"{built}, of which it was built, is not there: {line.path} has its name"
        return replace(choice, note=_joined(choice.note, note))
    return choice


def _ambiguous(search: _Search, candidates: Sequence[Definition]) -> Finding:
    places = ", ".join(f"{found.path}:{found.line}" for found in candidates)
    fit = f"{len(candidates)} definitions fit {search.name.base}: {places}"
    explanation = _joined(f"{fit}; narrow --source-dir to one of them", search.database.problem)
    return Finding(Outcome.AMBIGUOUS, explanation, candidates=candidates, consulted=search.consulted)


def _found(
    search: _Search, choice: Choice, candidates: Sequence[Definition], *, by_line_table: bool
) -> Finding:
    """Describe the unit of a definition, and compare what it makes with the captured instructions."""
    wanted, consulted, database = search.wanted, search.consulted, search.database
    definition, command = choice.definition, choice.command
    compiler = wanted.compiler or (None if command else shutil.which(wanted.toolchain.assumed))
    unit, problem = describe_unit(definition.path, command, wanted, compiler, consulted)
    used = command
    guess = None
    if database.path is None and command is None:
        guess = _assumed(definition, search.roots, wanted, consulted)
    if guess is not None:
        unit, assumed = guess
        used = unit.command
        problem = _joined(assumed, database.problem)
    elif command is None and unit.headers_by_compiler and compiler:
        used = CompileCommand(unit.path, unit.path.parent, (compiler, "-O3", str(unit.path)))
    definition = _as_included(definition, unit)
    linked = _linked(definition, command, wanted, consulted)
    reads_them = (path for each in linked for path in (each.path, *each.headers))
    files = {unit.path, definition.path, *unit.headers, *reads_them}
    newer = changed_since_built(search.capture, files, consulted)
    unedited = compare_unedited(used, wanted, newer)
    written = [type_name for type_name, _ in definition.parameters]
    held = compiled_addresses(search.capture.kernel, used, wanted, written, (unit.path, *unit.headers))
    notes = [choice.note, problem]
    if command is not None:
        notes += [about_difference(unedited, newer), *about_build(command, wanted)]
    elif guess is None:
        notes.insert(0, _why_no_command(database, definition, used, wanted))
        absent = _why_no_compiler(wanted)
        if absent:
            notes = [absent, *(note for note in notes if not (note and absent.startswith(note)))]
            unedited = Unedited(same_instructions=None, why=absent)
    return Finding(
        Outcome.FOUND,
        _joined(*notes),
        definition,
        candidates,
        by_line_table,
        unit,
        database.path,
        consulted,
        unedited=unedited,
        linked=linked,
        held=held,
    )


def _why_no_command(
    database: Database, definition: Definition, used: CompileCommand | None, wanted: Wanted
) -> str:
    text = f"no compile command found ({database.why_no_command(definition.path)})"
    if used is None:
        return text
    return f"{text}: `{' '.join(used.arguments)}` is assumed{_how_it_fits(used, wanted)}"


def _linked(
    definition: Definition, command: CompileCommand | None, wanted: Wanted, consulted: Consulted
) -> list[Unit]:
    """The other units that are linked with the kernel's, each with what it reads."""
    link = link_if_possible(command, wanted)
    if link.missing:  # any of the others may define it, once it is changed
        for each in wanted.commands:
            consulted.exists(each.file)
    others = link.units
    return [describe_unit(definition.path, other, wanted, wanted.compiler, consulted)[0] for other in others]


def _why_no_compiler(wanted: Wanted) -> str | None:
    """None where there is one that a command could be made for."""
    try:
        wanted.toolchain.find(
            wanted.compiler or wanted.toolchain.assumed, trusted=wanted.compiler is not None
        )
    except DeviceError as error:
        return f"{error}: {error.hint}"
    return None


def _joined(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None


def _assumed(
    definition: Definition, roots: Sequence[Path], wanted: Wanted, consulted: Consulted
) -> tuple[Unit, str] | None:
    """The unit that a command of ours compiles, where the compiler accepts it, and what is said of it."""
    compiler = wanted.compiler or wanted.toolchain.assumed
    commands = assumed_commands(definition.path, roots, compiler, consulted)
    if not commands:  # it lies where the compiler looks without being told
        others = assumed_commands(None, roots, compiler, consulted)
        commands = possible_commands(definition.path, others, wanted, consulted)
    command = choose_command(commands, wanted, consulted)
    if command is None:
        return None
    unit, _ = describe_unit(definition.path, command, wanted, wanted.compiler, consulted)
    if not unit.headers_by_compiler:
        return None
    return unit, (
        f"no compile command is known: `{' '.join(command.arguments)}` is assumed"
        f"{_how_it_fits(command, wanted)}; a compile_commands.json with one entry gives "
        "another one (`cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON` makes one)"
    )


def _how_it_fits(command: CompileCommand, wanted: Wanted) -> str:
    same = compares_code(command, wanted)
    if same is None:  # clang's PTX is no instructions
        return "" if yields_kernel(command, wanted) else ", which does not make this kernel"
    return "" if same else ", which does not give the captured instructions"


def _as_included(definition: Definition, unit: Unit) -> Definition:
    """The definition's file as the compiler calls it, which may reach it through a link."""
    for path in (unit.path, *unit.headers):
        if path == definition.path or path.resolve() == definition.path.resolve():
            return replace(definition, path=path)
    return definition


def _without_source(
    capture: Capture,
    code: CapturedCode,
    name: KernelName,
    tables: LineTables,
    roots: Sequence[Path],
    consulted: Consulted,
) -> Finding:
    outcome, explanation = classify(capture, name, tables, roots, consulted)
    searched = toolchain_of(capture).find_assembly(capture, code, roots, consulted)
    if searched is None:
        return Finding(outcome, explanation, consulted=consulted)
    if searched.found is None:
        return Finding(outcome, f"{explanation}; {searched.problem}", consulted=consulted)
    ptx = searched.found
    last_line = ptx.text.count(b"\n") + 1
    return Finding(
        Outcome.FOUND,
        f"{explanation}: its PTX is edited{searched.note}",
        Definition(ptx.path, ptx.line, last_line, name.scopes, is_template=name.is_template),
        assembly=ptx.text,
        unedited=searched.unedited,
        consulted=consulted,
    )
