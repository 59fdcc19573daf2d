"""kc-generate: make a project in which one captured kernel can be edited, rebuilt, replayed and validated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages import __version__
from kerncap_stages.digest import Digest, FileRef, ManifestRef
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.codec import dump, load, load_as
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.reproducer import ProjectFile, ReproducedKernel, Reproducer
from kerncap_stages.manifests.source import Source
from kerncap_stages.project.render import render_hip

if TYPE_CHECKING:
    from kerncap_stages.store import Store


def run_generate(store: Store, digest: Digest) -> tuple[Digest, Reproducer]:
    """Publish the project of a located capture, or of a capture alone, which can then not be rebuilt.

    Raises ArtifactError if the artifact is neither.
    """
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
