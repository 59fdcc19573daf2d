"""Makes the key of a project from everything that determines its files, without importing pydantic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncap_stages.digest import ManifestRef
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests import open_view
from kerncap_stages.store.remembered import make_request_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store

TEMPLATES = Path(__file__).resolve().parents[1] / "templates"
# Fields of a source that do not affect the project: what the search depended on, and where it searched.
_SHAPELESS = {"parents", "made_by", "consulted", "searched", "line_table_paths", "candidates"}


def make_project_key(store: Store, digests: Sequence[Digest], *, assembly: bool) -> Digest:
    """Make the key of a project of captures, located or not.

    Two searches that found the same source give the same key.
    Raises ArtifactError if an artifact is neither a capture nor a source.
    """
    captures: list[Digest] = []
    sources: list[dict[str, Any] | None] = []
    for digest in digests:
        with open_view(store, digest) as part:
            if part.kind == "source":
                captures.append(ManifestRef(part.capture).digest)
                sources.append(part.leave_out(_SHAPELESS))
            elif part.kind == "capture":
                captures.append(digest)
                sources.append(None)
            else:
                raise ArtifactError(
                    f"{digest.short} is a {part.kind}, but a project is made from a capture or its source",
                    hint="give the digest that kc-capture or kc-locate printed",
                )
    templates = [path.read_text() for path in sorted(TEMPLATES.rglob("*.j2"))]
    return make_request_key(
        "generate", assembly=assembly, captures=captures, sources=sources, templates=templates
    )
