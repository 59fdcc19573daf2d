"""Resolve an argument of a stage: an artifact in the store, or a project's folder with its own store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.cli.progress import progress
from kerncap_stages.errors import KerncapError, UsageError
from kerncap_stages.project.artifacts import find_capture_of, find_project
from kerncap_stages.store import Store
from kerncap_stages.store.copying import copy_closure, list_in_other_store
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.project.checkout import Project


def find_capture(store_folder: Path | None, text: str) -> tuple[Store, Digest]:
    """Find the capture that an argument names, and its store.

    The argument may name a capture, an artifact made from a capture, or a project's folder.
    Raises ArtifactNotFound if there is no such capture.
    """
    store, captures = find_captures(store_folder, text)
    return store, captures[0]


def find_captures(store_folder: Path | None, text: str) -> tuple[Store, tuple[Digest, ...]]:
    """Like ``find_capture``, but return every capture of a project.

    If the project's own store is read-only, copy the project's artifacts to the user's store and return that.
    """
    project = find_project(text)
    if project is not None:
        own = Store.open(project.store, create=False)
        if not own.folder.is_writable():
            own = _copy_to_user(own, project, store_folder)
        return own, project.captures
    store = Store.open(store_folder, create=False)
    return store, (find_capture_of(store, store.resolve(text)),)


def find_held_out(
    store_folder: Path | None, texts: Sequence[str], captures: Sequence[Digest]
) -> list[tuple[Store, Digest]]:
    """Find the captures of --held-out, each with its store.

    Raises UsageError for one that is among ``captures`` already, or that is given twice: it counts once.
    """
    found = [find_capture(store_folder, text) for text in texts]
    known = [*captures]
    for text, (_, digest) in zip(texts, found, strict=True):
        if digest in known:
            where = "the project holds" if digest in captures else "is given twice"
            raise UsageError(
                f"--held-out {make_printable(text)}: capture {digest.short}, which {where}",
                hint="name captures that whoever edits the project has not seen, each once",
            )
        known.append(digest)
    return found


def _copy_to_user(own: Store, project: Project, store_folder: Path | None) -> Store:
    """Copy a read-only project's artifacts to the user's store, and return that store.

    Returns the project's own store if the copy fails: results of earlier runs can still be read from it.
    """
    try:
        users = Store.open(store_folder)
        if users.root.samefile(own.root) or not users.folder.is_writable():
            return own
        if not (users.root / "artifacts" / project.reproducer).exists():
            with progress("copying to your store", counts_bytes=True) as report:
                copy_closure(own, [project.reproducer], users, report)
    except (KerncapError, OSError):
        return own
    return users


def list_for_user(store: Store, digest: Digest, store_folder: Path | None) -> str | None:
    """List a new artifact of a project's store in the user's store too: the next stage looks there.

    store_folder: the value of ``--store``. Nothing is done if ``store`` is the user's store.
    Returns a note for the user if the artifact could not be listed there, else None.
    """
    try:
        users = Store.open(store_folder)
        if not users.root.samefile(store.root):
            with progress("copying to your store", counts_bytes=True) as report:
                list_in_other_store(store, digest, users, report)
    except (KerncapError, OSError) as error:
        return (
            f"{digest.short} is only in the project's store, where `kc-show --store {store.root}` finds it: "
            f"{error}"
        )
    return None
