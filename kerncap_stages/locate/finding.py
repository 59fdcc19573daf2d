"""Searches the source of a captured kernel: its definition and translation unit, or why there is none."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kerncap_stages.compilers.compile_commands import CompileCommand
from kerncap_stages.compilers.consulted import Consulted
from kerncap_stages.compilers.program_file import find_newer_files, find_working_folder
from kerncap_stages.compilers.toolchains import choose_toolchain
from kerncap_stages.locate.argument_layouts import find_held_addresses
from kerncap_stages.locate.assumed import assume_commands
from kerncap_stages.locate.assumed_unit import assume_unit, describe_fit, show_command
from kerncap_stages.locate.choosing import choose, find_by_compiling, has_commands
from kerncap_stages.locate.databases import Database, read_database
from kerncap_stages.locate.definitions import Definition
from kerncap_stages.locate.failures import classify
from kerncap_stages.locate.linking import try_find_link
from kerncap_stages.locate.notes import describe_build, explain_difference, list_places
from kerncap_stages.locate.python_source import find_python_file
from kerncap_stages.locate.search import (
    find_by_line_tables,
    find_candidates,
    find_in_system,
    find_named_candidates,
    find_told_line,
    is_in_same_folder,
)
from kerncap_stages.locate.trying import try_definitions
from kerncap_stages.locate.unedited import compare_unedited
from kerncap_stages.locate.units import Unit, describe_unit, find_read_files
from kerncap_stages.locate.wanted import Wanted
from kerncap_stages.manifests.source import Outcome, Unedited

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.code.kernel_names import KernelName
    from kerncap_stages.compilers.captured_code import CapturedCode
    from kerncap_stages.compilers.line_tables import LineTables
    from kerncap_stages.compilers.precompiled import Precompiled
    from kerncap_stages.locate.choosing import Choice
    from kerncap_stages.locate.options import Options
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.source import HeldAddress

_NAME_ONE = "name the right file with --source-dir FILE"


@dataclass
class Finding:
    """The result of a search, with every file that it depends on."""

    outcome: Outcome
    explanation: str | None = None
    definition: Definition | None = None
    candidates: Sequence[Definition] = ()
    by_line_table: bool = False
    unit: Unit | None = None
    database: Path | None = None
    consulted: Consulted = field(default_factory=Consulted)
    assembly: bytes | None = None  # the kernel's text, if the definition's file is PTX
    unedited: Unedited | None = None
    precompiled: Precompiled | None = None
    linked: Sequence[Unit] = ()  # other units whose device code the kernel's unit uses
    held: tuple[HeldAddress, ...] = ()


@dataclass(frozen=True)
class _Search:
    """The facts that all steps of a search share."""

    capture: Capture
    code: CapturedCode
    name: KernelName
    tables: LineTables
    roots: Sequence[Path]
    guessed: bool  # the user named no folders: the roots are guesses
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
    build: Database | None = None,
) -> Finding:
    """Search the kernel's source. A source that is not found is a result, not an error.

    build: its commands, if they are known; otherwise they are searched, too.

    The search collects the definitions that fit, chooses the one that the kernel was compiled from, and
    describes its unit and compile command.
    """
    consulted = Consulted()
    if not roots:
        consulted.exists(find_working_folder(capture))  # if it appears later, it will be a root
    if find_python_file(tables) is not None:  # no file of C++ is its source, whatever it defines
        return _search_assembly(capture, code, name, tables, roots, consulted)
    guessed = not options.source_dirs
    named = find_by_line_tables(tables, roots, name, consulted, guessed=guessed)
    candidates = [named] if named else find_named_candidates(roots, name, consulted)
    if not candidates:
        # The files that the code object was compiled from, if they still exist.
        there = [path for path in tables.paths if consulted.exists(path)]
        candidates = find_candidates(there, name, consulted)
    near = candidates[0].path.parent if candidates else None
    database = read_database(near, roots, options, consulted) if build is None else build
    wanted = _make_wanted(capture, code, name, options, database)
    search = _Search(capture, code, name, tables, roots, guessed, wanted, database, consulted)
    likely = database.commands
    if not candidates:
        candidates = _find_in_units(search)
    if not candidates:
        if not likely:
            likely = tuple(assume_commands(None, roots, wanted.assumed_command, consulted))
        # The kernel of a library that is installed in the compiler's own folders.
        candidates = find_in_system(likely, name, wanted, consulted)
    problem = None
    if candidates:
        choice, problem = _choose_candidate(search, candidates)
    else:
        choice = _choose_compiled(search, likely)
    if choice is not None:
        return _describe_found(search, choice, candidates, by_line_table=named is not None)
    if candidates:
        fit = f"{len(candidates)} definitions fit {name.base}: {list_places(candidates)}"
        explanation = _join(fit, problem, database.problem)
        return Finding(Outcome.AMBIGUOUS, explanation, candidates=candidates, consulted=consulted)
    lost = _search_assembly(capture, code, name, tables, roots, consulted)
    return replace(lost, explanation=_join(lost.explanation, database.problem))


def _make_wanted(
    capture: Capture, code: CapturedCode, name: KernelName, options: Options, database: Database
) -> Wanted:
    toolchain = choose_toolchain(capture)
    return Wanted(
        toolchain,
        capture.kernel.mangled_name,
        name.base,
        toolchain.choose_target(capture),
        code.code_object,
        options.defines,
        options.compiler,
        commands=tuple(database.commands),
    )


def _find_in_units(search: _Search) -> list[Definition]:
    """Find definitions in the units of the build; if there are none, in the files that the units include."""
    commands, consulted = search.database.commands, search.consulted
    units = [file for file in dict.fromkeys(command.file for command in commands) if file.is_file()]
    candidates = find_candidates(units, search.name, consulted)
    if candidates:
        return candidates
    toolchain = search.wanted.toolchain
    included = (path for command in commands for path in find_read_files(command, toolchain, consulted))
    return find_candidates(list(dict.fromkeys(included)), search.name, consulted)


def _choose_compiled(search: _Search, likely: Sequence[CompileCommand]) -> Choice | None:
    """Find a definition that no text shows, by compiling units or else from the line tables."""
    wanted, consulted, tables = search.wanted, search.consulted, search.tables
    choice = find_by_compiling(likely, wanted, consulted)
    if choice is not None:
        # An assumed command is not one of the build's; the finding says that there is none.
        return choice if likely is search.database.commands else replace(choice, command=None)
    line = find_told_line(tables, search.roots, consulted, guessed=search.guessed)
    if line is None:
        return None
    choice = choose([line], search.database.commands, wanted, consulted)
    built = tables.definition[0] if tables.definition else None
    if choice and built and not is_in_same_folder(line.path, built):
        note = f"{built}, from which it was built, is missing; {line.path} has the same name"
        return replace(choice, note=_join(choice.note, note))
    return choice


def _choose_candidate(search: _Search, candidates: Sequence[Definition]) -> tuple[Choice | None, str | None]:
    """Choose a definition by the build's commands, or else by assumed ones; also says why there is none."""
    wanted, consulted, commands = search.wanted, search.consulted, search.database.commands
    choice = choose(candidates, commands, wanted, consulted)
    is_decided = choice is not None and (choice.command is not None or len(candidates) == 1)
    if is_decided or has_commands(candidates, commands, wanted, consulted):
        return choice, _NAME_ONE
    tried = try_definitions(candidates, search.roots, wanted, consulted)
    return tried.choice or choice, tried.problem


def _describe_found(
    search: _Search, choice: Choice, candidates: Sequence[Definition], *, by_line_table: bool
) -> Finding:
    """Describe the unit of a definition, and compare its instructions with the captured ones."""
    wanted, consulted = search.wanted, search.consulted
    database = Database() if choice.is_tried else search.database  # no build compiles it
    definition, command = choice.definition, choice.command
    compiler = wanted.compiler or (None if command else shutil.which(wanted.toolchain.assumed))
    unit, problem = describe_unit(definition.path, command, wanted, compiler, consulted)
    used = command
    guess = None
    if database.path is None and command is None:
        guess, assumed = assume_unit(definition.path, search.roots, wanted, consulted)
        problem = assumed or problem
    if guess is not None:
        unit = guess
        used = unit.command
        problem = _join(problem, database.problem)
    elif command is None and unit.headers_by_compiler and compiler:
        used = CompileCommand(unit.path, unit.path.parent, (compiler, "-O3", str(unit.path)))
    definition = _use_included_path(definition, unit)
    linked = _describe_linked(definition, command, wanted, consulted)
    reads_them = (path for each in linked for path in (each.path, *each.headers))
    files = {unit.path, definition.path, *unit.headers, *reads_them}
    newer = find_newer_files(search.capture, files, consulted)
    compared = compare_unedited(used, wanted, definition.path, newer)
    unedited = compared.unedited
    written = [type_name for type_name, _ in definition.parameters]
    held = find_held_addresses(search.capture.kernel, used, wanted, written, (unit.path, *unit.headers))
    notes = [choice.note, problem]
    if definition.macro is not None:
        notes.insert(0, f"line {definition.line} uses the macro {definition.macro}, which makes the kernel")
    if command is not None:
        notes += [explain_difference(unedited, newer), *describe_build(command, wanted)]
    elif guess is None:
        notes.insert(0, _explain_no_command(database, definition, used, wanted))
        absent = wanted.explain_no_compiler()
        if absent:
            notes = [absent, *(note for note in notes if not (note and absent.startswith(note)))]
            unedited = Unedited(same_instructions=None, why=absent)
    return Finding(
        Outcome.FOUND,
        _join(*notes),
        definition,
        candidates,
        by_line_table,
        unit,
        database.path,
        consulted,
        unedited=unedited,
        precompiled=compared.precompiled,
        linked=linked,
        held=held,
    )


def _explain_no_command(
    database: Database, definition: Definition, used: CompileCommand | None, wanted: Wanted
) -> str:
    text = f"no compile command found ({database.explain_no_command(definition.path)})"
    if used is None:
        return text
    return f"{text}: `{show_command(used, wanted)}` is assumed{describe_fit(used, wanted)}"


def _describe_linked(
    definition: Definition, command: CompileCommand | None, wanted: Wanted, consulted: Consulted
) -> list[Unit]:
    """Describe the other units that are linked with the kernel's unit."""
    link = try_find_link(command, wanted)
    if link.missing:  # after a change, any other unit may define the missing symbol
        for each in wanted.commands:
            consulted.exists(each.file)
    others = link.units
    return [describe_unit(definition.path, other, wanted, wanted.compiler, consulted)[0] for other in others]


def _join(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None


def _use_included_path(definition: Definition, unit: Unit) -> Definition:
    """Use the compiler's path of the definition's file, which may be a link to it."""
    for path in (unit.path, *unit.headers):
        if path == definition.path or path.resolve() == definition.path.resolve():
            return replace(definition, path=path)
    return definition


def _search_assembly(
    capture: Capture,
    code: CapturedCode,
    name: KernelName,
    tables: LineTables,
    roots: Sequence[Path],
    consulted: Consulted,
) -> Finding:
    outcome, explanation = classify(capture, name, tables, roots, consulted)
    searched = choose_toolchain(capture).find_assembly(capture, code, roots, consulted)
    if searched is None:
        return Finding(outcome, explanation, consulted=consulted)
    if searched.found is None:
        return Finding(outcome, f"{explanation}; {searched.problem}", consulted=consulted)
    ptx = searched.found
    last_line = ptx.text.count(b"\n") + 1
    return Finding(
        Outcome.FOUND,
        f"{explanation}; the kernel's PTX can be edited{searched.note}",
        Definition(ptx.path, ptx.line, last_line, name.scopes, is_template=name.is_template),
        assembly=ptx.text,
        unedited=searched.unedited,
        consulted=consulted,
    )
