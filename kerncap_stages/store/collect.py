"""Collects garbage: marks all objects that can be reached from the roots, then removes the others."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError
from kerncap_stages.store.artifacts import find_roots, is_digest
from kerncap_stages.store.folder import list_folder, sync_folder
from kerncap_stages.store.objects import BATCH_OBJECTS, list_stored_objects

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.store.closure import Closure
    from kerncap_stages.store.objects import Progress
    from kerncap_stages.store.store import Store


@dataclass(frozen=True)
class GcReport:
    """How much a collection kept and removed, or would remove."""

    kept_objects: int
    kept_bytes: int
    removed_objects: int
    removed_bytes: int
    dead_transactions: int
    stale_actions: int
    dry_run: bool


def collect_garbage(store: Store, *, dry_run: bool = False, progress: Progress | None = None) -> GcReport:
    """Remove all objects that no listed artifact, no name and no live transaction reaches.

    Raises StoreError if others use the store for too long. Raises ArtifactError, and removes nothing, if a
    root cannot be followed, because it is not known which objects it reaches.
    """
    with store.folder.lock_shared():
        reached = _mark(store, None)  # most of the work, while others may use the store
    with store.folder.lock_shared() if dry_run else store.folder.lock_exclusively():
        dead = 0 if dry_run else store.folder.native.clear_dead_transactions()
        reached = _mark(store, reached)
        # What was missing at the first look may have been stored since: the second one does not follow it.
        kept = reached.kinds.keys() | reached.missing.keys() | _read_pins(store.root)
        sizes, _ = list_stored_objects(store.root)
        garbage = {digest: size for digest, size in sizes.items() if digest not in kept}
        stale = 0
        if not dry_run:
            _remove(store, garbage, progress)
            stale = store.actions.drop_stale()
    return GcReport(
        kept_objects=len(sizes) - len(garbage),
        kept_bytes=sum(sizes.values()) - sum(garbage.values()),
        removed_objects=len(garbage),
        removed_bytes=sum(garbage.values()),
        dead_transactions=dead,
        stale_actions=stale,
        dry_run=dry_run,
    )


def _mark(store: Store, known: Closure | None) -> Closure:
    reached = store.walk(find_roots(store.root), known)
    for message in (reached.untraced | reached.unreadable).values():
        raise ArtifactError(
            f"nothing was removed, because it is not known which objects are needed: {message}",
            hint="`kc-store check` names the artifacts; `kc-store rm` removes them from the list",
        )
    return reached


def _read_pins(root: Path) -> set[Digest]:
    """Return the objects that live transactions use. Under the exclusive lock all lines are complete."""
    pins = set()
    for transaction in list_folder(root, "tmp"):
        pinned = transaction / "pins"
        if pinned.is_file():  # reading a pipe would block
            with contextlib.suppress(FileNotFoundError):
                lines = pinned.read_text(encoding="ascii").splitlines()
                pins |= {Digest(line) for line in lines if is_digest(line)}
    return pins


def _remove(store: Store, garbage: dict[Digest, int], progress: Progress | None) -> None:
    total, done = sum(garbage.values()), 0
    for number, (digest, size) in enumerate(garbage.items(), start=1):
        with contextlib.suppress(FileNotFoundError):
            store.folder.find_object_path(digest).unlink()
        done += size
        if progress and (number % BATCH_OBJECTS == 0 or number == len(garbage)):
            progress(done, total)
    for folder in {digest[:2] for digest in garbage}:
        sync_folder(store.root / "objects" / folder)
