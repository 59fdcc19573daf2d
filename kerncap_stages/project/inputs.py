"""What a project is made from, and what of it decides how the project comes out."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from kerncap_stages import __version__
from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.codec import canonical, load, load_as
from kerncap_stages.manifests.source import Source
from kerncap_stages.project.render import TEMPLATES, Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.store import Store

# Of a source, what it depends on and where it was looked for do not shape the project.
_SHAPELESS = {"parents", "made_by", "consulted", "searched", "line_table_paths", "candidates"}


def read_part(store: Store, digest: Digest) -> Part:
    """A located capture, or a capture alone.

    Raises ArtifactError if the artifact is neither.
    """
    manifest = load(store, digest)
    if isinstance(manifest, Source):
        capture = manifest.capture.digest
        return Part(capture, load_as(store, capture, Capture), manifest)
    if isinstance(manifest, Capture):
        return Part(digest, manifest, None)
    raise ArtifactError(
        f"{digest.short} is a {manifest.kind}, and a project is made from a capture or its source",
        hint="give what kc-capture or kc-locate printed",
    )


def action_key(parts: Sequence[Part], *, assembly: bool) -> Digest:
    """A source that was searched for again and found to be the same gives the same project."""
    templates = [path.read_text() for path in sorted(TEMPLATES.rglob("*.j2"))]
    request = {
        "stage": "generate",
        "version": __version__,
        "assembly": assembly,
        "captures": [part.digest for part in parts],
        "sources": [
            None if part.source is None else part.source.model_dump(mode="json", exclude=_SHAPELESS)
            for part in parts
        ],
        "templates": templates,
    }
    return Digest(hashlib.sha256(canonical(request)).hexdigest())
