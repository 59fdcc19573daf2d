"""Publishes the project of a captured kernel as a reproducer artifact."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kerncap_stages import __version__
from kerncap_stages.compilers.toolchains import choose_toolchain
from kerncap_stages.digest import Digest, FileRef, ManifestRef
from kerncap_stages.errors import KerncapError, Refused, UsageError
from kerncap_stages.generate.inputs import read_part
from kerncap_stages.generate.kinds import choose_kind
from kerncap_stages.generate.render import has_one_kernel, render
from kerncap_stages.generate.request import make_project_key
from kerncap_stages.generate.triton_project import make_triton_project
from kerncap_stages.manifests import dump
from kerncap_stages.manifests.kernel import CodeObjectFormat, Language
from kerncap_stages.manifests.reproducer import ProjectFile, ReproducedKernel, Reproducer
from kerncap_stages.manifests.source import Unedited
from kerncap_stages.store.remembered import load_remembered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.generate.render import Part, Rendered
    from kerncap_stages.store import Store, Transaction


def run_generate(
    store: Store, digest: Digest, *more: Digest, assembly: bool = False, fresh: bool = False
) -> tuple[Digest, Reproducer]:
    """Publish the project of a located capture, or of a capture alone, which cannot be recompiled.

    more: further kernels of the same translation unit.
    assembly: edit instructions even if the source is known. Without a source, instructions are edited anyway
    if LLVM's tools are installed. Unless ``fresh``, a project that was made before from the same inputs is
    returned at once.
    Raises ArtifactError if an artifact is neither a capture nor a source.
    """
    digests = (digest, *more)
    key = make_project_key(store, digests, assembly=assembly)
    known = None if fresh else load_remembered(store, key, Reproducer)
    if known is not None:
        return known
    parts, problems = _prepare(store, [read_part(store, each) for each in digests], assembly=assembly)
    rendered = render(parts, problems)
    with store.begin_transaction() as transaction:
        reproducer = _make_reproducer(store, digests, parts, rendered, transaction)
        made = transaction.publish(dump(reproducer), "reproducer", list(digests))
    store.actions.put(key, made)
    return made, reproducer


def _prepare(store: Store, parts: list[Part], *, assembly: bool) -> tuple[list[Part], list[str]]:
    """Choose what is edited: Triton's Python, a source that a command compiles, or instructions.

    Returns the parts with what each kind needs, and what is not possible.
    """
    if not has_one_kernel(parts):
        if assembly:
            raise UsageError("--assembly edits one kernel", hint="leave out --together")
        return parts, []
    part, problems = _prepare_kernel(store, parts[0], assembly=assembly)
    return [part, *(replace(other, source=other.source or part.source) for other in parts[1:])], problems


def _prepare_kernel(store: Store, part: Part, *, assembly: bool) -> tuple[Part, list[str]]:
    problems = []
    if not assembly and part.source is not None and part.source.language is Language.TRITON:
        try:
            part = replace(part, triton=make_triton_project(part.capture))
            if part.triton is None:
                problems.append("no Triton project: how Triton compiled the kernel was not recorded")
        except Refused as refusal:
            problems.append(f"no Triton project: {refusal}")
    is_compiled = part.source is not None and part.source.compile_command is not None
    if part.triton is not None or (is_compiled and not assembly):
        return part, []
    try:
        return _add_assembly(store, part), problems
    except KerncapError as error:
        if assembly:
            raise
        return _add_listing(store, part), [*problems, f"no assembly loop: {error}"]


def _add_assembly(store: Store, part: Part) -> Part:
    text = choose_kind(part.capture).read_assembly_text(store, part.capture, part.source)
    return replace(part, assembly=text)


def _add_listing(store: Store, part: Part) -> Part:
    return replace(part, listing=choose_kind(part.capture).make_listing(store, part.capture))


def _describe_unedited(part: Part) -> Unedited | None:
    """Say whether the unedited project gives the captured instructions; AMD's assembly always does."""
    if part.assembly is not None and part.capture.kernel.code_object.format is CodeObjectFormat.ELF_AMDGPU:
        return Unedited(same_instructions=True)
    return None if part.source is None else part.source.unedited


def _make_reproducer(
    store: Store,
    digests: Sequence[Digest],
    parts: Sequence[Part],
    rendered: Rendered,
    transaction: Transaction,
) -> Reproducer:
    stored = {name: FileRef.to(transaction.put_bytes(content)) for name, content in rendered.files.items()}
    sizes = {name: len(content) for name, content in rendered.files.items()}
    for name, copied in rendered.copied.items():
        stored[name] = FileRef.to(copied)
        sizes[name] = len(store.get(Digest(copied)))
    return Reproducer(
        parents=tuple(ManifestRef.to(digest) for digest in digests),
        made_by=f"kerncap-stages {__version__}",
        language=Language.TRITON if parts[0].triton else choose_toolchain(parts[0].capture).language,
        kernels=tuple(
            ReproducedKernel(
                name=part.capture.kernel.demangled_name,
                capture=ManifestRef.to(part.digest),
                # The cases of a kernel may share the source of the first.
                source=ManifestRef.to(digests[0] if digest == part.digest else digest)
                if part.source
                else None,
                unedited=_describe_unedited(part),
            )
            for digest, part in zip(digests, parts, strict=True)
        ),
        files=tuple(
            ProjectFile(
                path=name, payload=stored[name], size_bytes=sizes[name], editable=name in rendered.editable
            )
            for name in sorted(stored)
        ),
        can_recompile=rendered.can_recompile,
        missing=rendered.missing,
    )
