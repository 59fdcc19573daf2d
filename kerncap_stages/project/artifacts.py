"""What belongs together: a folder and its project, a capture and what was made of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.digest import ManifestRef
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests import viewing
from kerncap_stages.project.checkout import is_project, open_project, project_folder

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.project.checkout import Project
    from kerncap_stages.store import Store


def project_of(text: str) -> Project | None:
    """The project in a folder, if the text names one, or names its ``capture``.

    A digest or a name is never taken for a folder.
    Raises ArtifactError for a project whose store is gone.
    """
    looks_like_path = text in (".", "..") or "/" in text or Path(text).is_dir()
    folder = project_folder(Path(text)) if looks_like_path else Path(text)
    if not looks_like_path or not is_project(folder):
        return None
    project = open_project(folder)
    if not project.store.is_dir():
        raise ArtifactError(f"{project.store} is missing", hint="run kc-generate again, into that folder")
    return project


def source_of(store: Store, capture: Digest) -> Digest | None:
    """The newest source that was found for a capture, if there is one in the store."""
    for entry in store.artifacts("source"):
        if capture in entry.parents:
            with viewing(store, entry.digest) as source:
                if source.outcome == "found":
                    return entry.digest
    return None


def kernel_name(store: Store, capture: Digest) -> str:
    """The name of the kernel of a capture, as people read it."""
    with viewing(store, capture) as captured:
        return str(captured.kernel.demangled_name)


def capture_of(store: Store, digest: Digest) -> Digest:
    """The capture that an artifact is or was made from.

    Raises ArtifactError if it has none.
    """
    with viewing(store, digest) as made:
        if made.kind == "capture":
            return digest
        if made.kind in ("source", "replay", "validation"):
            return ManifestRef(made.capture).digest
        if made.kind == "reproducer":
            return ManifestRef(made.kernels[0].capture).digest
        hint = "`kc-store ls --kind capture` lists the captures"
        if made.kind == "profile":
            hint = f"`kc-capture {digest.short}` makes one of this profile"
        raise ArtifactError(f"{digest.short} is a {made.kind}, and this needs a capture", hint=hint)
