"""The engine of kc-locate: finds the source of a captured kernel, and publishes the source artifact."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from kerncap_stages import __version__
from kerncap_stages.code.kernel_names import parse_kernel_name
from kerncap_stages.compilers.captured_code import CapturedCode
from kerncap_stages.compilers.consulted import is_current
from kerncap_stages.compilers.line_tables import read_line_tables
from kerncap_stages.compilers.program_file import guess_roots
from kerncap_stages.compilers.toolchains import choose_toolchain
from kerncap_stages.digest import Digest, ManifestRef
from kerncap_stages.errors import UsageError
from kerncap_stages.locate.databases import Database
from kerncap_stages.locate.describe import (
    describe_command,
    describe_definition,
    describe_precompiled,
    store_assembly,
    store_files,
)
from kerncap_stages.locate.finding import find_source
from kerncap_stages.locate.jitted import describe_jitted
from kerncap_stages.locate.options import check_macros, check_source_folders
from kerncap_stages.locate.python_source import find_triton_source
from kerncap_stages.locate.rtc import explain, list_commands, name_folder, rename_folder, write_program
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.manifests import dump, load_as
from kerncap_stages.manifests.base import to_os_text
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.source import ConsultedFile, Outcome, Source, SourceFile
from kerncap_stages.store.remembered import load_remembered

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.code.kernel_names import KernelName
    from kerncap_stages.compilers.line_tables import LineTables
    from kerncap_stages.locate.finding import Finding
    from kerncap_stages.locate.options import Options
    from kerncap_stages.manifests.rtc import RtcProgram
    from kerncap_stages.store import Store, Transaction


_SAME = 2  # the rank of a source that compiles to the captured instructions


def run_locate(
    store: Store, capture_digest: Digest, options: Options, *, fresh: bool = False
) -> tuple[Digest, Source]:
    """Publish and return the source manifest of a capture. "Not found" is a result, not an error.

    Unless ``fresh``, the result of an earlier search is returned at once if nothing that it depends on has
    changed: the files that it read, and the files that it found absent.
    Raises UsageError if a given folder or database does not exist, or a given file is no source;
    ArtifactError if the artifact is not a capture.
    """
    check_macros(options.defines)
    if options.compiler is not None and shutil.which(options.compiler) is None:
        raise UsageError(f"there is no compiler {options.compiler}", hint="--compiler takes a program")
    capture = load_as(store, capture_digest, Capture)
    check_source_folders(options.source_dirs, may_be_programs=capture.environment.backend is Backend.CUDA)
    known = None if fresh else load_remembered(store, options.make_key(capture_digest), Source, is_current)
    if known is not None:
        return known
    with store.begin_transaction() as transaction:
        if capture.kernel.triton is not None:
            manifest = describe_jitted(capture, capture_digest, capture.kernel.triton)
        elif capture.kernel.rtc is not None:
            manifest = _search_rtc(store, capture, capture_digest, capture.kernel.rtc, options, transaction)
        else:
            manifest = _search(store, capture, capture_digest, options, transaction)
        digest = transaction.publish(dump(manifest), "source", [capture_digest])
    if capture.kernel.rtc is None or _rank(manifest) > 0:  # else a compiler that is installed later may do it
        store.actions.put(options.make_key(capture_digest), digest)
    return digest, manifest


def _search(
    store: Store, capture: Capture, capture_digest: Digest, options: Options, transaction: Transaction
) -> Source:
    name = parse_kernel_name(capture.kernel.demangled_name)
    code = CapturedCode.read(store, capture)
    tables = read_line_tables(code.code_object, capture.kernel.mangled_name)
    roots = tuple(folder.resolve() for folder in options.source_dirs) or guess_roots(capture)
    finding = find_source(capture, code, name, tables, roots, options)
    if finding.outcome not in (Outcome.FOUND, Outcome.AMBIGUOUS):
        consulted = finding.consulted
        source = find_triton_source(capture, capture_digest, tables, roots, consulted, transaction)
        if source is not None:
            return source
    return _make_source(capture, capture_digest, name, tables, roots, options, finding, transaction)


def _search_rtc(
    store: Store,
    capture: Capture,
    capture_digest: Digest,
    rtc: RtcProgram,
    options: Options,
    transaction: Transaction,
) -> Source:
    name = parse_kernel_name(capture.kernel.demangled_name)
    code = CapturedCode.read(store, capture)
    tables = read_line_tables(code.code_object, capture.kernel.mangled_name)
    with TemporaryFolder("rtc") as temporary:
        folder = temporary.resolve()
        made = []
        for command in list_commands(write_program(store, rtc, folder, choose_toolchain(capture)), rtc):
            build = Database(commands=(command,))
            finding = find_source(capture, code, name, tables, (folder,), options, build)
            finding.explanation = "; ".join(note for note in (explain(rtc), finding.explanation) if note)
            digests = finding.consulted.digests
            for path in [path for path in digests if path.is_relative_to(folder)]:
                del digests[path]
            made.append(
                _make_source(capture, capture_digest, name, tables, (), options, finding, transaction)
            )
            if _rank(made[-1]) == _SAME:
                break
        renamed = rename_folder(dump(max(made, key=_rank)), folder, name_folder(rtc))
    return Source.model_validate_json(renamed)


def _rank(source: Source) -> int:
    """Rank by what the unedited source compiles to: the captured instructions, others, or nothing."""
    unedited = source.unedited
    if unedited is None or unedited.same_instructions is None:
        return 0
    return _SAME if unedited.same_instructions else 1


def _make_source(
    capture: Capture,
    capture_digest: Digest,
    name: KernelName,
    tables: LineTables,
    roots: Sequence[Path],
    options: Options,
    finding: Finding,
    transaction: Transaction,
) -> Source:
    unit, toolchain = finding.unit, choose_toolchain(capture)
    definition = finding.definition
    language = toolchain.language if definition else capture.kernel.language
    files: tuple[SourceFile, ...] = ()
    if definition is not None and finding.assembly is not None:
        language = Language.ASSEMBLY
        files = store_assembly(definition.path, finding.assembly, transaction)
    elif definition is not None and unit is not None:
        files = store_files(definition.path, (unit, *finding.linked), transaction)
    return Source(
        parents=(ManifestRef.to(capture_digest),),
        made_by=f"kerncap-stages {__version__}",
        capture=ManifestRef.to(capture_digest),
        kernel_name=capture.kernel.demangled_name,
        language=language,
        outcome=finding.outcome,
        explanation=finding.explanation,
        definition=describe_definition(finding.definition, name, by_line_table=finding.by_line_table)
        if finding.definition
        else None,
        candidates=tuple(
            describe_definition(found, name, by_line_table=False) for found in finding.candidates
        ),
        compile_command=describe_command(unit, finding.database, options, toolchain) if unit else None,
        linked_units=tuple(
            command
            for other in finding.linked
            if (command := describe_command(other, finding.database, options, toolchain)) is not None
        ),
        files=files,
        held_addresses=finding.held,
        headers_by_compiler=bool(unit and unit.headers_by_compiler),
        unedited=finding.unedited,
        precompiled=None if finding.precompiled is None else describe_precompiled(finding.precompiled),
        line_table_paths=tuple(to_os_text(str(path)) for path in tables.paths),
        searched=tuple(to_os_text(str(root)) for root in roots),
        consulted=tuple(
            ConsultedFile(path=to_os_text(str(path)), digest=None if digest is None else Digest(digest))
            for path, digest in sorted(finding.consulted.digests.items())
        ),
    )
