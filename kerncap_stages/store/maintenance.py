"""Checking a store and collecting what nothing refers to."""

from __future__ import annotations

import contextlib
import os
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest
from kerncap_stages.store.artifacts import read_artifacts, read_names
from kerncap_stages.store.closure import walk
from kerncap_stages.store.folder import clear_abandoned, locked, sync_folder
from kerncap_stages.store.usage import object_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kerncap_stages import _native
    from kerncap_stages.store.closure import Closure
    from kerncap_stages.store.store import Store

    Progress = Callable[[int, int], None]  # objects done, objects in all

_BATCH_OBJECTS = 2048
_FOLDER = re.compile(r"[0-9a-f]{2}")
_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Fault:
    """Something wrong; ``kind``: ``missing``, ``damaged``, ``unreadable``, or ``stray`` for no object at all."""

    kind: str
    what: str
    message: str
    artifacts: tuple[Digest, ...]  # those that cannot be used because of it


@dataclass(frozen=True)
class CheckReport:
    """What a check read, and what it found."""

    objects: int
    checked: int
    stored_size_bytes: int
    faults: tuple[Fault, ...]

    @property
    def ok(self) -> bool:
        """Nothing wrong was found."""
        return not self.faults


@dataclass(frozen=True)
class GcReport:
    """What a collection removed, or would remove."""

    kept_objects: int
    removed_objects: int
    removed_size_bytes: int
    abandoned_transactions: int
    stale_actions: int
    dry_run: bool


def stored_objects(root: Path) -> Iterator[tuple[Digest | None, str]]:
    """(digest, path below objects/) of every file; no digest where the name is not one."""
    for folder in sorted(entry.name for entry in os.scandir(root / "objects")):
        path = root / "objects" / folder
        if not _FOLDER.fullmatch(folder) or not path.is_dir():
            yield None, folder
            continue
        for name in sorted(entry.name for entry in os.scandir(path)):
            whole = _NAME.fullmatch(name) and name.startswith(folder)
            yield (Digest(name) if whole else None), f"{folder}/{name}"


def check(store: Store, sample: float | None, progress: Progress | None) -> CheckReport:
    """Read and hash every object, or a random share of them, and follow every artifact's references."""
    root = store.root
    with locked(root, exclusive=False):
        listed = list(stored_objects(root))
        digests = [digest for digest, _ in listed if digest is not None]
        chosen = digests if sample is None else random.sample(digests, round(len(digests) * sample))
        bad = _read_all(store.native, chosen, progress)
        owners = _owners(store, bad)
        faults = [
            Fault(kind, digest, message, tuple(owners.get(Digest(digest), ())))
            for digest, kind, message in bad
        ]
        faults += [
            Fault("stray", path, f"objects/{path} is not an object", ())
            for digest, path in listed
            if digest is None
        ]
        known = {digest for digest, _, _ in bad}
        faults += [fault for fault in _broken_closures(store) if fault.what not in known]
        size = sum(object_path(root, digest).stat().st_size for digest in digests)
    return CheckReport(len(digests), len(chosen), size, tuple(faults))


def _read_all(
    native: _native.ObjectStore, digests: list[Digest], progress: Progress | None
) -> list[tuple[str, str, str]]:
    from kerncap_stages import _native

    faults: list[tuple[str, str, str]] = []
    for start in range(0, len(digests), _BATCH_OBJECTS):
        faults += _native.check_objects(native, digests[start : start + _BATCH_OBJECTS])
        if progress:
            progress(min(start + _BATCH_OBJECTS, len(digests)), len(digests))
    return faults


def _closures(store: Store) -> Iterator[tuple[Digest, Closure]]:
    for entry in read_artifacts(store.root):
        yield entry.digest, store.closure(entry.digest)


def _owners(store: Store, bad: list[tuple[str, str, str]]) -> dict[Digest, list[Digest]]:
    owners: dict[Digest, list[Digest]] = {}
    wanted = {Digest(digest) for digest, _, _ in bad}
    for artifact, closure in _closures(store) if wanted else ():
        for digest in wanted & (closure.kinds.keys() | closure.missing.keys()):
            owners.setdefault(digest, []).append(artifact)
    return owners


def _broken_closures(store: Store) -> list[Fault]:
    """Objects that artifacts or names refer to and that are not there, or cannot be followed."""
    owners: dict[Digest, list[Digest]] = {}
    reasons: dict[Digest, str] = {}
    for artifact, closure in _closures(store):
        for digest, reason in closure.missing.items():
            owners.setdefault(digest, []).append(artifact)
            reasons[digest] = reason
    for name, digest in read_names(store.root).items():
        if not object_path(store.root, digest).exists():
            owners.setdefault(digest, [])
            reasons[digest] = f"missing, and the name {name} refers to it"
    return [
        Fault(
            "missing" if reason.startswith("missing") else "damaged",
            digest,
            f"object {digest} is {reason}" if reason.startswith("missing") else reason,
            tuple(owners[digest]),
        )
        for digest, reason in reasons.items()
    ]


def collect_garbage(store: Store, *, dry_run: bool, progress: Progress | None) -> GcReport:
    """Remove every object that no listed artifact and no name reaches.

    Raises StoreError when others use the store for too long, ArtifactError when an artifact cannot be followed:
    what it reaches is not known, so nothing is removed.
    """
    from kerncap_stages.errors import ArtifactError

    root = store.root
    with locked(root, exclusive=True):
        abandoned = sum(1 for _ in os.scandir(root / "tmp")) if dry_run else clear_abandoned(root)
        roots = {entry.digest for entry in read_artifacts(root)} | set(read_names(root).values())
        reached = walk(sorted(roots), store.read_unlocked, store.has)
        for reason in reached.missing.values():
            if reason != "missing":
                raise ArtifactError(
                    f"nothing was removed: {reason}",
                    hint="`kc-store check` names the artifacts; `kc-store rm` takes them off the list",
                )
        everything = [digest for digest, _ in stored_objects(root) if digest is not None]
        garbage = [digest for digest in everything if digest not in reached.kinds]
        size = sum(object_path(root, digest).stat().st_size for digest in garbage)
        stale = 0
        if not dry_run:
            _remove(root, garbage, progress)
            stale = store.actions.drop_stale()
    return GcReport(len(reached), len(garbage), size, abandoned, stale, dry_run)


def _remove(root: Path, garbage: list[Digest], progress: Progress | None) -> None:
    for done, digest in enumerate(garbage):
        with contextlib.suppress(FileNotFoundError):
            object_path(root, digest).unlink()
        if progress and done % _BATCH_OBJECTS == 0:
            progress(done, len(garbage))
    for folder in {digest[:2] for digest in garbage}:
        sync_folder(root / "objects" / folder)
