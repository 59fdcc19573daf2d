"""What an argument of a stage means: an artifact of the store, or a project's folder, which has its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.cli.progress import progress
from kerncap_stages.errors import KerncapError
from kerncap_stages.project.artifacts import capture_of, project_of
from kerncap_stages.store import Store
from kerncap_stages.store.copying import also_list, copy_closure

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.project.checkout import Project


def find_capture(store_folder: Path | None, text: str) -> tuple[Store, Digest]:
    """The store and the capture that an argument leads to: a capture, what was made from one, or a project.

    Raises ArtifactNotFound if it leads to none.
    """
    store, captures = find_captures(store_folder, text)
    return store, captures[0]


def find_captures(store_folder: Path | None, text: str) -> tuple[Store, tuple[Digest, ...]]:
    """Like ``find_capture``, with every capture of a project that has several.

    Of a project that may only be read it is the user's store, where the project's artifacts are now, too.
    """
    project = project_of(text)
    if project is not None:
        own = Store.open(project.store, create=False)
        return (own if own.folder.is_writable() else _in_users(own, project, store_folder)), project.captures
    store = Store.open(store_folder, create=False)
    return store, (capture_of(store, store.resolve(text)),)


def _in_users(own: Store, project: Project, store_folder: Path | None) -> Store:
    """The user's store, with what a read-only project consists of; the project's own where that cannot be.

    The project's own store still answers what it remembers.
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
    """List what was made in a project's store in the user's, too: the next stage looks for it there.

    store_folder: as ``--store`` gave it. Nothing is done if ``store`` is the user's.
    Returns what people have to know where it cannot be listed there.
    """
    try:
        users = Store.open(store_folder)
        if not users.root.samefile(store.root):
            with progress("copying to your store", counts_bytes=True) as report:
                also_list(store, digest, users, report)
    except (KerncapError, OSError) as error:
        return (
            f"{digest.short} is in the project's store alone, where `kc-show --store {store.root}` finds it: "
            f"{error}"
        )
    return None
