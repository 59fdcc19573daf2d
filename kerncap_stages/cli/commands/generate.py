"""kc-generate: make a project in which one captured kernel can be edited, rebuilt, replayed and validated."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncap_stages import __version__
from kerncap_stages.cli.console import emit, epilog, run, say
from kerncap_stages.cli.inputs import artifact_texts
from kerncap_stages.cli.options import ArtifactArguments, JsonOption, StoreOption, VersionOption, stage_app
from kerncap_stages.errors import KerncapError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.generate.render import Part, Rendered
    from kerncap_stages.locate.options import Options
    from kerncap_stages.manifests.reproducer import Reproducer
    from kerncap_stages.manifests.source import Source, Unedited
    from kerncap_stages.manifests.view import View
    from kerncap_stages.project.checkout import Checkout
    from kerncap_stages.store import Store, Transaction

app = stage_app(help_text="Make a project from a captured kernel.")


@app.command(
    epilog=epilog(
        "kc-profile -- ./app | kc-capture | kc-generate\n"
        "kc-generate @capture --source-dir ./src --output ./isolated/scale"
    )
)
def generate(
    artifacts: ArtifactArguments = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The project's folder; else ./isolated/KERNEL."),
    ] = None,
    source_dir: Annotated[
        list[Path] | None,
        typer.Option(
            "--source-dir",
            "-s",
            metavar="DIR",
            help="Where the kernel's source lies; else where the program ran or lies. May be repeated.",
        ),
    ] = None,
    together: Annotated[
        bool,
        typer.Option(
            "--together", help="One project for all kernels, which must be of one translation unit."
        ),
    ] = False,
    assembly: Annotated[
        bool,
        typer.Option("--assembly", help="Edit the kernel's instructions, even if its source is known."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that were edited.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Make it again even if nothing has changed; edits are kept.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> None:
    """Make a project in which one captured kernel can be edited, rebuilt, replayed and validated.

    Takes a capture, whose source is located first, or what kc-locate printed. Of a kernel without source the
    instructions are edited. The folder can be moved to another machine. Prints the digest of one reproducer
    artifact for each.
    """
    from kerncap_stages.locate.options import Options
    from kerncap_stages.store import Store

    opened = Store.open(store)
    options = Options(tuple(source_dir or ()))
    if assembly and options.source_dirs:
        raise UsageError("--assembly needs no source", hint="leave out --source-dir")
    for count, texts in enumerate(_grouped(artifact_texts(artifacts), together=together)):
        place = output.with_name(f"{output.name}-{count + 1}") if output is not None and count > 0 else output
        inputs = [opened.resolve(text) for text in texts]
        if not assembly:
            inputs = [_located(opened, each, options, fresh=fresh) for each in inputs]
        known = None if fresh else _in_place(opened, inputs, place, assembly=assembly, force=force)
        digest, made, checkout = known or _written(
            opened, inputs, place, assembly=assembly, force=force, fresh=fresh
        )
        _report(checkout, made)
        emit(digest, opened.get(digest) if as_json else None)


def _located(store: Store, digest: Digest, options: Options, *, fresh: bool) -> Digest:
    """The source artifact of a capture, located first; any other artifact as it is.

    Raises UsageError if a given folder is not there, or the artifact is none that is looked for in folders.
    """
    from kerncap_stages.locate.known_source import known_source, source_summary
    from kerncap_stages.manifests.view import read_view
    from kerncap_stages.text.terminal import printable

    if read_view(store, digest).kind != "capture":
        if options.source_dirs:
            raise UsageError(
                f"--source-dir is for captures, and {digest.short} is none",
                hint="kc-locate @capture --source-dir DIR | kc-generate",
            )
        return digest
    try:
        known = None if fresh else known_source(store, digest, options)
        located, made = known or _searched(store, digest, options)
    except UsageError:
        raise
    except KerncapError as error:
        say(f"the source could not be looked for: {printable(str(error))}")
        return digest
    say(source_summary(made))
    return located


def _searched(store: Store, capture: Digest, options: Options) -> tuple[Digest, Source]:
    from kerncap_stages.locate.locating import locate

    return locate(store, capture, options, fresh=True)


def _in_place(
    store: Store, inputs: Sequence[Digest], place: Path | None, *, assembly: bool, force: bool
) -> tuple[Digest, View, Checkout] | None:
    """The project that lies there already, if it is the one of these inputs; found without the models."""
    from kerncap_stages.generate.request import project_key
    from kerncap_stages.project.checkout import checked_out
    from kerncap_stages.store.remembered import remembered

    known = remembered(store, project_key(store, inputs, assembly=assembly))
    if known is None:
        return None
    checkout = checked_out(known.digest, known.made, place or default_folder(known.made), force=force)
    return None if checkout is None else (known.digest, known.made, checkout)


def _written(
    store: Store, inputs: Sequence[Digest], place: Path | None, *, assembly: bool, force: bool, fresh: bool
) -> tuple[Digest, Reproducer, Checkout]:
    from kerncap_stages.project.checkout import check_out

    digest, made = run_generate(store, *inputs, assembly=assembly, fresh=fresh)
    return digest, made, check_out(store, digest, made, place or default_folder(made), force=force)


def _grouped(texts: Iterator[str], *, together: bool) -> Iterator[list[str]]:
    """One artifact at a time, so that a pipe is worked on as it comes; or all of them at once."""
    if together:
        yield list(texts)
    else:
        yield from ([text] for text in texts)


def main() -> None:
    """Run kc-generate."""
    run(app)


def folder_name(kernel_name: str) -> str:
    """A short folder name for a kernel: letters, digits, `_`, `.` and `-` of its name before any argument."""
    from kerncap_stages.code.kernel_names import parse_kernel_name

    cleaned = re.sub(r"[^A-Za-z0-9_.-]+", "_", parse_kernel_name(kernel_name).base).strip("_.-")
    return cleaned[:80] or "kernel"


def default_folder(reproducer: Reproducer | View) -> Path:
    """Where a project is written unless the user says."""
    return Path("isolated") / folder_name(reproducer.kernels[0].name)


def _report(checkout: Checkout, reproducer: Reproducer | View) -> None:
    from kerncap_stages.text.terminal import printable

    folder = printable(shlex.quote(str(checkout.folder)))
    say(f"project in {folder}: `make -C {folder} help`")
    texts = ("kernel_variant.s", "kernel_variant.ptx")
    edited = next((file.path for file in reproducer.files if file.path in texts), None)
    lead = f"`make assemble` rebuilds {edited}" if edited else "cannot be rebuilt"
    for missing in reproducer.missing:
        say(f"  {lead}: {printable(missing)}")
    for note in checkout.notes():
        say(f"  {note}")


def run_generate(
    store: Store, digest: Digest, *more: Digest, assembly: bool = False, fresh: bool = False
) -> tuple[Digest, Reproducer]:
    """Publish the project of a located capture, or of a capture alone, which cannot be compiled again.

    ``more``: further kernels of the same translation unit. ``assembly``: edit instructions, whatever is known
    of the source; without source that is so anyway, where LLVM's tools are there. Returns at once what was
    made of the same inputs before, unless ``fresh``.
    Raises ArtifactError if an artifact is neither a capture nor a source.
    """
    from kerncap_stages.generate.inputs import read_part
    from kerncap_stages.generate.render import render
    from kerncap_stages.generate.request import project_key
    from kerncap_stages.manifests.codec import dump
    from kerncap_stages.manifests.reproducer import Reproducer
    from kerncap_stages.store.remembered import remembered_as

    digests = (digest, *more)
    key = project_key(store, digests, assembly=assembly)
    known = None if fresh else remembered_as(store, key, Reproducer)
    if known is not None:
        return known
    parts = [read_part(store, each) for each in digests]
    why_no_assembly = ""
    source = parts[0].source
    if len(parts) == 1 and (assembly or source is None or source.compile_command is None):
        try:
            parts = [_with_assembly(store, parts[0])]
        except KerncapError as error:
            if assembly:
                raise
            why_no_assembly = str(error)
            parts = [_with_listing(store, parts[0])]
    elif assembly:
        raise UsageError("--assembly edits one kernel", hint="leave out --together")
    rendered = render(parts, why_no_assembly)
    with store.transaction() as transaction:
        reproducer = _manifest(store, digests, parts, rendered, transaction)
        made = transaction.publish(dump(reproducer), "reproducer", list(digests))
    store.actions.put(key, made)
    return made, reproducer


def _with_assembly(store: Store, part: Part) -> Part:
    from dataclasses import replace

    from kerncap_stages.generate.kinds import kind_of

    text = kind_of(part.capture).assembly_text(store, part.capture, part.source)
    return replace(part, assembly=text)


def _with_listing(store: Store, part: Part) -> Part:
    from dataclasses import replace

    from kerncap_stages.generate.kinds import kind_of

    return replace(part, listing=kind_of(part.capture).listing(store, part.capture))


def _unedited(part: Part) -> Unedited | None:
    """Whether what is edited begins as the captured instructions; AMD's were taken from the code object."""
    from kerncap_stages.manifests.kernel import CodeObjectFormat
    from kerncap_stages.manifests.source import Unedited

    if part.assembly is not None and part.capture.kernel.code_object.format is CodeObjectFormat.ELF_AMDGPU:
        return Unedited(same_instructions=True)
    return None if part.source is None else part.source.unedited


def _manifest(
    store: Store,
    digests: Sequence[Digest],
    parts: Sequence[Part],
    rendered: Rendered,
    transaction: Transaction,
) -> Reproducer:
    from kerncap_stages.compilers.toolchains import toolchain_of
    from kerncap_stages.digest import Digest, FileRef, ManifestRef
    from kerncap_stages.manifests.reproducer import ProjectFile, ReproducedKernel, Reproducer

    stored = {name: FileRef.to(transaction.put_bytes(content)) for name, content in rendered.files.items()}
    sizes = {name: len(content) for name, content in rendered.files.items()}
    for name, copied in rendered.copied.items():
        stored[name] = FileRef.to(copied)
        sizes[name] = len(store.get(Digest(copied)))
    return Reproducer(
        parents=tuple(ManifestRef.to(digest) for digest in digests),
        made_by=f"kerncap-stages {__version__}",
        language=toolchain_of(parts[0].capture).language,
        kernels=tuple(
            ReproducedKernel(
                name=part.capture.kernel.demangled_name,
                capture=ManifestRef.to(part.digest),
                source=ManifestRef.to(digest) if part.source else None,
                unedited=_unedited(part),
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
