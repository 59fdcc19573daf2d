"""kc-generate: make a project in which one captured kernel can be edited, rebuilt, replayed and validated."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncap_stages import __version__
from kerncap_stages.console import emit, epilog, run, say
from kerncap_stages.inputs import artifact_texts
from kerncap_stages.options import ArtifactArguments, JsonOption, StoreOption, VersionOption, stage_app

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.reproducer import Reproducer
    from kerncap_stages.project.checkout import Checkout
    from kerncap_stages.store import Store

app = stage_app(help_text="Make a project from a captured kernel.")


@app.command(epilog=epilog("kc-locate @capture --source-dir ./src | kc-generate --output ./isolated/scale"))
def generate(
    artifacts: ArtifactArguments = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The project's folder; else ./isolated/KERNEL."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that were edited.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> None:
    """Make a project in which one captured kernel can be edited, rebuilt, replayed and validated.

    Takes what kc-locate printed, or a capture alone, which can be replayed but not rebuilt. The folder can be
    moved to another machine. Prints the digest of one reproducer artifact for each.
    """
    from kerncap_stages.project.checkout import check_out
    from kerncap_stages.store import Store

    opened = Store.open(store)
    for count, text in enumerate(artifact_texts(artifacts)):
        digest, reproducer = run_generate(opened, opened.resolve(text))
        folder = output or Path("isolated") / folder_name(reproducer.kernels[0].name)
        if output is not None and count > 0:
            folder = output.with_name(f"{output.name}-{count + 1}")
        _report(check_out(opened, digest, reproducer, folder, force=force), reproducer)
        emit(digest, reproducer if as_json else None)


def main() -> None:
    """Run kc-generate."""
    run(app)


def folder_name(kernel_name: str) -> str:
    """A short folder name for a kernel: letters, digits, `_`, `.` and `-` of its name before any argument."""
    from kerncap_stages.source.kernel_names import parse_kernel_name

    cleaned = re.sub(r"[^A-Za-z0-9_.-]+", "_", parse_kernel_name(kernel_name).base).strip("_.-")
    return cleaned[:80] or "kernel"


def _report(checkout: Checkout, reproducer: Reproducer) -> None:
    from kerncap_stages.terminal_text import printable

    say(f"project in {printable(str(checkout.folder))}: `make -C {printable(str(checkout.folder))} help`")
    for missing in reproducer.missing:
        say(f"  cannot be rebuilt: {printable(missing)}")
    for kept in checkout.kept:
        say(f"  kept your edit of {kept} (--force overwrites it)")


def run_generate(store: Store, digest: Digest) -> tuple[Digest, Reproducer]:
    """Publish the project of a located capture, or of a capture alone, which can then not be rebuilt.

    Raises ArtifactError if the artifact is neither.
    """
    from kerncap_stages.digest import Digest, FileRef, ManifestRef
    from kerncap_stages.errors import ArtifactError
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.codec import dump, load, load_as
    from kerncap_stages.manifests.kernel import Language
    from kerncap_stages.manifests.reproducer import ProjectFile, ReproducedKernel, Reproducer
    from kerncap_stages.manifests.source import Source
    from kerncap_stages.project.render import render_hip

    manifest = load(store, digest)
    source: Source | None = None
    if isinstance(manifest, Source):
        source = manifest
        capture_digest = source.capture.digest
    elif isinstance(manifest, Capture):
        capture_digest = digest
    else:
        raise ArtifactError(
            f"{digest.short} is a {manifest.kind}, and a project is made from a capture or its source",
            hint="give what kc-capture or kc-locate printed",
        )
    capture = load_as(store, capture_digest, Capture)
    rendered = render_hip(capture, source)
    with store.transaction() as transaction:
        stored = {
            name: FileRef.to(transaction.put_bytes(content)) for name, content in rendered.files.items()
        }
        sizes = {name: len(content) for name, content in rendered.files.items()}
        for name, copied in rendered.copied.items():
            stored[name] = FileRef.to(copied)
            sizes[name] = len(store.get(Digest(copied)))
        reproducer = Reproducer(
            parents=(ManifestRef.to(digest),),
            made_by=f"kerncap-stages {__version__}",
            language=Language.HIP,
            kernels=(
                ReproducedKernel(
                    name=capture.kernel.demangled_name,
                    capture=ManifestRef.to(capture_digest),
                    source=ManifestRef.to(digest) if source else None,
                ),
            ),
            files=tuple(
                ProjectFile(
                    path=name,
                    payload=stored[name],
                    size_bytes=sizes[name],
                    editable=name in rendered.editable,
                )
                for name in sorted(stored)
            ),
            can_recompile=rendered.can_recompile,
            missing=rendered.missing,
        )
        made = transaction.publish(dump(reproducer), "reproducer", [digest])
    return made, reproducer
