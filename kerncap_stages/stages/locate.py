"""kc-locate: find the source of a captured kernel, its compile command and its headers."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages import __version__
from kerncap_stages.digest import Digest, FileRef, ManifestRef
from kerncap_stages.errors import UsageError
from kerncap_stages.manifests.base import os_string, os_text
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.codec import dump, load_as
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.source import (
    CompileCommand,
    ConsultedFile,
    Definition,
    Outcome,
    Parameter,
    Source,
    SourceFile,
)
from kerncap_stages.source.compile_commands import compile_flags, find_database, load_database
from kerncap_stages.source.kernel_names import parse_kernel_name
from kerncap_stages.source.line_tables import read_line_tables
from kerncap_stages.source.search import (
    Consulted,
    find_candidates,
    from_line_tables,
    is_triton_kernel,
    is_unchanged,
)
from kerncap_stages.source.units import Unit, choose_command, describe_unit, possible_commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.source import definitions
    from kerncap_stages.source.compile_commands import CompileCommand as FoundCommand
    from kerncap_stages.source.kernel_names import KernelName
    from kerncap_stages.source.line_tables import LineTables
    from kerncap_stages.store import Store, Transaction


@dataclass(frozen=True)
class LocateOptions:
    """Where to look, and how the project is built."""

    source_dirs: tuple[Path, ...] = ()
    compile_commands: Path | None = None
    defines: tuple[str, ...] = ()
    compiler: str | None = None


@dataclass
class _Finding:
    outcome: Outcome
    explanation: str | None = None
    definition: definitions.Definition | None = None
    candidates: Sequence[definitions.Definition] = ()
    by_line_table: bool = False
    unit: Unit | None = None
    database: Path | None = None
    consulted: Consulted = field(default_factory=Consulted)


def run_locate(store: Store, capture_digest: Digest, options: LocateOptions) -> tuple[Digest, Source]:
    """Publish and return the source manifest of a capture; "not found" is a result, classified, not an error.

    Raises UsageError if a given folder or database does not exist; ArtifactError if it is no capture.
    """
    for folder in options.source_dirs:
        if not folder.exists():
            raise UsageError(
                f"no such source folder: {folder}", hint="give the root of the kernel's source tree"
            )
    capture = load_as(store, capture_digest, Capture)
    name = parse_kernel_name(capture.kernel.demangled_name)
    tables = read_line_tables(
        store.get(capture.kernel.code_object.payload.digest), capture.kernel.mangled_name
    )
    roots = tuple(folder.resolve() for folder in options.source_dirs) or _guessed_roots(capture)
    finding = _find(capture, name, tables, roots, options)
    with store.transaction() as transaction:
        manifest = _manifest(capture, capture_digest, name, tables, roots, options, finding, transaction)
        digest = transaction.publish(dump(manifest), "source", [capture_digest])
    return digest, manifest


def is_current(manifest: Source) -> bool:
    """Whether everything that an earlier search consulted, or found absent, still is as it was."""
    return all(is_unchanged(Path(os_string(entry.path)), entry.digest) for entry in manifest.consulted)


def _guessed_roots(capture: Capture) -> tuple[Path, ...]:
    """Without --source-dir: the program's working folder, if there are sources in it."""
    folder = Path(os_string(capture.program.working_directory))
    return (folder,) if folder.is_dir() and folder != Path(folder.anchor) and folder != Path.home() else ()


def _find(
    capture: Capture, name: KernelName, tables: LineTables, roots: Sequence[Path], options: LocateOptions
) -> _Finding:
    consulted = Consulted()
    named = from_line_tables(tables, roots, name, consulted)
    candidates = [named] if named else find_candidates(roots, name, consulted)
    if not candidates:
        outcome, explanation = _classify(capture, name, tables, roots)
        return _Finding(outcome, explanation, consulted=consulted)
    database = options.compile_commands or _database(candidates[0].path, roots, consulted)
    commands = load_database(database) if database else []
    if database:
        consulted.read(database)
    definition, command = _choose(capture, candidates, commands, options, consulted)
    if definition is None:
        places = ", ".join(f"{found.path}:{found.line}" for found in candidates)
        return _Finding(
            Outcome.AMBIGUOUS,
            f"{len(candidates)} definitions fit {name.base}: {places}; narrow --source-dir to one of them",
            candidates=candidates,
            consulted=consulted,
        )
    compiler = options.compiler or (None if command else shutil.which("hipcc"))
    target = capture.environment.devices[capture.dispatch.device_index].target
    unit, problem = describe_unit(definition.path, command, options.defines, target, compiler, consulted)
    return _Finding(
        Outcome.FOUND,
        problem if command or unit.headers_by_compiler else _no_command(database, problem),
        definition,
        candidates,
        named is not None,
        unit,
        database,
        consulted,
    )


def _database(near: Path, roots: Sequence[Path], consulted: Consulted) -> Path | None:
    for start in (*roots, near.parent):
        consulted.exists(start / "compile_commands.json")
        found = find_database(start if start.is_dir() else start.parent)
        if found:
            return found
    return None


def _choose(
    capture: Capture,
    candidates: Sequence[definitions.Definition],
    commands: Sequence[FoundCommand],
    options: LocateOptions,
    consulted: Consulted,
) -> tuple[definitions.Definition | None, FoundCommand | None]:
    """Pick the one definition; where several fit, the one that a compile command proves."""
    target = capture.environment.devices[capture.dispatch.device_index].target
    proven: list[tuple[definitions.Definition, FoundCommand]] = []
    for definition in candidates:
        possible = possible_commands(definition.path, commands, consulted)
        command = choose_command(
            possible, capture.kernel.mangled_name, target, options.defines, options.compiler
        )
        if command is not None:
            proven.append((definition, command))
    if len(proven) == 1:
        return proven[0]
    if len(candidates) == 1:
        return candidates[0], None
    return None, None


def _classify(
    capture: Capture, name: KernelName, tables: LineTables, roots: Sequence[Path]
) -> tuple[Outcome, str]:
    if capture.kernel.language is Language.TRITON or is_triton_kernel(roots, name.base):
        return Outcome.TRITON_KERNEL, f"{name.base} is a Triton kernel: its source is Python"
    where = ", ".join(str(root) for root in roots) or "no folder"
    if tables.definition is not None or tables.paths:
        path = tables.definition[0] if tables.definition else tables.paths[0]
        return Outcome.WRONG_DIRECTORY, f"the code object was made from {path}, and {where} does not hold it"
    if not roots:
        return Outcome.NOT_FOUND, "nowhere to look: pass --source-dir"
    if capture.kernel.demangled_name == capture.kernel.mangled_name:
        return Outcome.NO_SOURCE_TRAIL, (
            f"{name.base} is not in {where}, is not a C++ name and its code object has no line table: "
            "a library's, hand-written or generated kernel"
        )
    return Outcome.NOT_FOUND, (
        f"no definition of {name.base} in {where}, and the code object has no line table; "
        "pass the right --source-dir, or build the program with -gline-tables-only"
    )


def _no_command(database: Path | None, problem: str | None) -> str:
    lead = (
        f"{database} has no entry for this file"
        if database
        else "no compile_commands.json: make one with cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
    )
    return f"no compile command found ({lead})" + (f"; {problem}" if problem else "")


def _manifest(
    capture: Capture,
    capture_digest: Digest,
    name: KernelName,
    tables: LineTables,
    roots: Sequence[Path],
    options: LocateOptions,
    finding: _Finding,
    transaction: Transaction,
) -> Source:
    unit = finding.unit
    return Source(
        parents=(ManifestRef.to(capture_digest),),
        made_by=f"kerncap-stages {__version__}",
        capture=ManifestRef.to(capture_digest),
        kernel_name=capture.kernel.demangled_name,
        language=Language.HIP if finding.definition else capture.kernel.language,
        outcome=finding.outcome,
        explanation=finding.explanation,
        definition=_described(finding.definition, name, finding.by_line_table)
        if finding.definition
        else None,
        candidates=tuple(_described(found, name, by_line_table=False) for found in finding.candidates),
        compile_command=_command(unit, finding.database, options) if unit else None,
        files=_files(finding.definition.path, unit, transaction) if finding.definition and unit else (),
        headers_by_compiler=bool(unit and unit.headers_by_compiler),
        line_table_paths=tuple(os_text(str(path)) for path in tables.paths),
        searched=tuple(os_text(str(root)) for root in roots),
        consulted=tuple(
            ConsultedFile(path=os_text(str(path)), digest=None if digest is None else Digest(digest))
            for path, digest in sorted(finding.consulted.digests.items())
        ),
    )


def _described(found: definitions.Definition, name: KernelName, by_line_table: bool) -> Definition:
    return Definition(
        path=os_text(str(found.path)),
        line=found.line,
        end_line=max(found.line, found.last_line),
        qualified_name="::".join((*found.scopes, name.base)),
        template_arguments=", ".join(name.template_arguments) or None,
        parameters=tuple(
            Parameter(name=parameter, type_name=type_name, element_type=element_type(type_name))
            for type_name, parameter in found.parameters
        ),
        via_line_table=by_line_table,
    )


def element_type(type_name: str) -> str | None:
    """What a parameter's type points at: ``float`` of ``const float*``; None for a non-pointer."""
    if "*" not in type_name:
        return None
    words = (
        type_name.split("*", 1)[0].replace("const", " ").replace("volatile", " ").replace("__restrict__", " ")
    )
    return " ".join(words.split()) or None


def _command(unit: Unit, database: Path | None, options: LocateOptions) -> CompileCommand | None:
    if unit.command is None:
        if not unit.headers_by_compiler:
            return None
        # The unit preprocesses by itself: a command assumed, and said to be (there is no database).
        compiler = options.compiler or "hipcc"
        arguments = (compiler, "-O3", *(f"-D{define}" for define in options.defines))
        return CompileCommand(
            translation_unit=os_text(str(unit.path)),
            directory=os_text(str(unit.path.parent)),
            arguments=tuple(os_text(word) for word in arguments),
            added_defines=tuple(os_text(define) for define in options.defines),
        )
    compiler = options.compiler or unit.command.compiler
    return CompileCommand(
        translation_unit=os_text(str(unit.path)),
        directory=os_text(str(unit.command.directory)),
        arguments=tuple(os_text(word) for word in (compiler, *compile_flags(unit.command, options.defines))),
        database=os_text(str(database)) if database else None,
        added_defines=tuple(os_text(define) for define in options.defines),
    )


def _files(definition_file: Path, unit: Unit, transaction: Transaction) -> tuple[SourceFile, ...]:
    paths = dict.fromkeys((definition_file, unit.path, *unit.headers))
    return tuple(
        SourceFile(
            path=os_text(str(path)),
            payload=FileRef.to(transaction.put_file(path)),
            size_bytes=path.stat().st_size,
            is_header=path != unit.path,
        )
        for path in paths
    )
