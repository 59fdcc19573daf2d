"""Finds the project in a folder, the capture that an artifact was made from, and the source of a capture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.digest import ManifestRef
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests import open_view
from kerncap_stages.project.folder import find_project_folder, is_project, open_project

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.project.folder import Project
    from kerncap_stages.store import Store


def find_project(text: str) -> Project | None:
    """Open the project in the folder that the text names; its ``capture`` folder names it, too.

    Returns None where the text names no folder of a project: it may be a digest or an artifact's name.
    Raises ArtifactError for a project whose store is missing or has no capture.
    """
    looks_like_path = text in (".", "..") or "/" in text or Path(text).is_dir()
    folder = find_project_folder(Path(text)) if looks_like_path else Path(text)
    if not looks_like_path or not is_project(folder):
        return None
    project = open_project(folder)
    again = f"run kc-generate again with --output {folder}"
    if not project.store.is_dir():
        raise ArtifactError(f"{project.store} is missing", hint=again)
    listed = project.store / "artifacts"
    if not any((listed / each).exists() for each in (project.reproducer, *project.captures)):
        raise ArtifactError(
            f"{folder} is not complete: kc-generate ended before it had copied the capture", hint=again
        )
    return project


def find_source_of(store: Store, capture: Digest) -> Digest | None:
    """Return the newest source in the store that was found for a capture; None if there is none.

    Without one of its own, a capture has the source of another capture of the same code.
    """
    entries = store.list_artifacts("source")
    for entry in entries:
        if capture in entry.parents and _read_found_capture(store, entry.digest) is not None:
            return entry.digest
    code = read_code(store, capture) if entries else None
    for entry in entries:
        located = _read_found_capture(store, entry.digest)
        if located is not None and store.has(located) and read_code(store, located) == code:
            return entry.digest
    return None


def _read_found_capture(store: Store, source: Digest) -> Digest | None:
    with open_view(store, source) as made:
        return ManifestRef(made.capture).digest if made.outcome == "found" else None


def read_code(store: Store, capture: Digest) -> tuple[str, str]:
    """Return what captures of one kernel have in common: its symbol, and its code object."""
    with open_view(store, capture) as made:
        return str(made.kernel.mangled_name), str(made.kernel.code_object.payload)


def find_kernel_name(store: Store, capture: Digest) -> str:
    """Return the demangled name of a capture's kernel."""
    with open_view(store, capture) as captured:
        return str(captured.kernel.demangled_name)


def find_capture_of(store: Store, digest: Digest) -> Digest:
    """Return the capture that an artifact was made from, or the artifact itself if it is a capture.

    Raises ArtifactError if it was made from no capture.
    """
    with open_view(store, digest) as made:
        if made.kind == "capture":
            return digest
        if made.kind in ("source", "replay", "validation"):
            return ManifestRef(made.capture).digest
        if made.kind == "evaluation":
            return ManifestRef(made.cases[0].capture).digest
        if made.kind == "reproducer":
            return ManifestRef(made.kernels[0].capture).digest
        hint = "`kc-store ls --kind capture` lists the captures"
        if made.kind == "profile":
            hint = f"`kc-capture {digest.short}` captures a kernel of this profile"
        raise ArtifactError(f"{digest.short} is a {made.kind}, but a capture is needed", hint=hint)
