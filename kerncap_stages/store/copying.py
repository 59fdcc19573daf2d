"""Copies artifacts to another store, with all objects that they need."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kerncap_stages.errors import ArtifactNotFound
from kerncap_stages.store.artifacts import choose_time_ns, make_list_entry
from kerncap_stages.store.objects import find_damaged, sum_sizes
from kerncap_stages.store.room import require_room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.store.closure import Closure
    from kerncap_stages.store.objects import Progress
    from kerncap_stages.store.store import Store
    from kerncap_stages.store.transaction import Transaction


def copy_closure(
    store: Store, digests: Sequence[Digest], other: Store, progress: Progress | None = None
) -> None:
    """Copy artifacts with those that they were made from, and list them in the other store as they are here.

    Raises ArtifactError if an object that they need is missing, DigestMismatch if one is damaged.
    """
    with store.folder.lock_shared(), other.begin_transaction() as transaction:
        manifests = _stage(store, digests, other, transaction, progress).manifests
        listed = [entry for entry in store.list_artifacts() if entry.digest in manifests]
        transaction.publish_listed(
            [
                (entry.digest, make_list_entry(entry.kind, entry.parents, entry.created_at_ns))
                for entry in reversed(listed)
            ]
        )


def list_in_other_store(store: Store, digest: Digest, other: Store, progress: Progress | None = None) -> None:
    """Copy an artifact to another store, and list only this one there, as the latest.

    What it keeps for later runs of its stage stays here, such as the states that a validation replayed from.
    Raises like ``copy_closure``; ArtifactNotFound if it is not listed here, Refused without enough free
    space.
    """
    if (other.root / "artifacts" / digest).exists():
        other.list_again(digest)
        return
    entry = next((entry for entry in store.list_artifacts() if entry.digest == digest), None)
    if entry is None:
        raise ArtifactNotFound(f"{digest.short} is not a listed artifact", hint="`kc-store ls` lists them")
    with store.folder.lock_shared(), other.begin_transaction() as transaction:
        _stage(store, [digest], other, transaction, progress, kept=False)
        line = make_list_entry(entry.kind, entry.parents, choose_time_ns(other.root))
        transaction.publish_listed([(digest, line)])


def copy_unlisted(
    store: Store, made: Sequence[tuple[Digest, Sequence[Digest]]], kind: str, other: Store, first_ns: int
) -> None:
    """Copy manifests that are not listed here to another store, and list them there, each with its parents.

    All of them appear, in this order, or none; without what they keep for later runs. first_ns: the time of
    the first one; each is a nanosecond after the one before. Raises like ``list_in_other_store``.
    """
    with store.folder.lock_shared(), other.begin_transaction() as transaction:
        _stage(store, [digest for digest, _ in made], other, transaction, None, kept=False)
        transaction.publish_listed(
            [
                (digest, make_list_entry(kind, parents, first_ns + number))
                for number, (digest, parents) in enumerate(made)
            ]
        )


def _stage(
    store: Store,
    digests: Sequence[Digest],
    other: Store,
    transaction: Transaction,
    progress: Progress | None,
    *,
    kept: bool = True,
) -> Closure:
    """Stage the objects that the other store lacks; a file system that can share blocks does so.

    A memory that the artifacts are whole without is left out if it is damaged.
    """
    closure = store.walk(digests, kept=False)
    if kept and closure.optional:
        whole = store.walk(digests)
        damaged = find_damaged(store, sorted(whole.kinds.keys() - closure.kinds.keys()))
        closure = store.walk(digests, damaged=damaged) if damaged else whole
    lacking = transaction.find_lacking(closure.kinds)
    total, done = sum_sizes(store.root, {*lacking}), 0
    require_room(other.root, [("the objects that the other store lacks", total)])
    for digest in lacking:
        fd = os.open(
            store.folder.find_object_path(digest), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        )
        try:
            size_bytes = os.fstat(fd).st_size
            transaction.adopt(fd, [(0, size_bytes, digest)])
        finally:
            os.close(fd)
        done += size_bytes
        if progress:
            progress(done, total)
    return closure
