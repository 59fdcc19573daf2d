"""Writes closures to a file and reads them back: a tar archive of objects after a list of artifacts."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kerncap_stages.digest import Digest
from kerncap_stages.errors import (
    ArtifactError,
    ArtifactNotFound,
    DigestMismatch,
    ManifestUnreadable,
    Refused,
    UsageError,
)
from kerncap_stages.manifests import to_canonical
from kerncap_stages.store.artifacts import choose_time_ns, is_time, make_list_entry, read_names
from kerncap_stages.store.folder import make_system_error
from kerncap_stages.store.naming import can_be_a_name, give_name
from kerncap_stages.store.objects import BATCH_OBJECTS, find_damaged, sum_sizes
from kerncap_stages.store.transaction import require_canonical

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.store.artifacts import ArtifactEntry
    from kerncap_stages.store.objects import Progress
    from kerncap_stages.store.store import Store
    from kerncap_stages.store.transaction import Transaction

_INDEX = "kerncap-archive.json"
_VERSION = 1
_OBJECT = re.compile(r"objects/([0-9a-f]{2})/(\1[0-9a-f]{62})")
_NO_MANIFEST = (ValueError, KeyError, TypeError, RecursionError, UsageError, ManifestUnreadable)
_MAX_INDEX_BYTES = 64 << 20
_SET_ASIDE = "`kc-store check --repair` sets damaged objects aside; then make or import those artifacts again"


@dataclass(frozen=True)
class _Listed:
    digest: Digest
    kind: str
    created_at_ns: int
    parents: tuple[Digest, ...]
    names: tuple[str, ...]


def export(store: Store, digests: Sequence[Digest], path: Path, progress: Progress | None = None) -> None:
    """Write the closures of artifacts to a file, which appears complete or not at all.

    A memory that they are whole without is left out if it is damaged.
    Raises ArtifactError if an object that they need is missing, DigestMismatch if one is damaged.
    """
    with store.folder.lock_shared():
        listed = {entry.digest for entry in store.list_artifacts()}
        for digest in digests:
            if digest not in listed:
                raise ArtifactNotFound(
                    f"{digest.short} is not a listed artifact", hint="`kc-store ls` lists them"
                )
        closure = store.walk(digests)
        for message in (closure.missing | closure.unreadable).values():
            raise ArtifactError(f"cannot export: {message}", hint="`kc-store check` names what is affected")
        damaged = find_damaged(store, sorted(closure.kinds))  # an archive may be the only copy that is kept
        if damaged:
            closure = store.walk(digests, damaged=damaged)
        for digest in damaged.keys() & closure.kinds.keys():
            raise DigestMismatch(f"cannot export: {damaged[digest]}", hint=_SET_ASIDE)
        total, done = sum_sizes(store.root, set(closure.kinds)), 0
        draft = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with tarfile.open(draft, "x:", format=tarfile.PAX_FORMAT) as archive:
                _add_index(archive, store, digests, closure.manifests)
                for digest in sorted(closure.kinds):
                    member = archive.gettarinfo(
                        store.folder.find_object_path(digest), f"objects/{digest[:2]}/{digest}"
                    )
                    with store.folder.find_object_path(digest).open("rb") as file:
                        archive.addfile(_strip_owner(member), file)
                    done += member.size
                    if progress:
                        progress(done, total)
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError as error:
            raise make_system_error(f"cannot write {path}", error) from error
        finally:
            draft.unlink(missing_ok=True)


def import_archive(store: Store, path: Path, progress: Progress | None = None) -> list[Digest]:
    """Add an archive's artifacts to the store: all of them or none. Every object is verified.

    Returns the artifacts that were exported. Raises DigestMismatch for an incomplete or damaged archive,
    UsageError if it is not a file.
    """
    if not path.is_file():
        what = "is not a regular file" if path.exists() else "does not exist"
        raise UsageError(f"{path} {what}", hint="give a file that `kc-store export` wrote")
    try:
        with (
            tarfile.open(path, "r:") as archive,
            path.open("rb") as file,
            store.begin_transaction() as transaction,
        ):
            total = path.stat().st_size
            listed, exported = _read_index(archive, path)
            lost = {*exported}
            for batch in _read_batches(archive, path):
                transaction.adopt(file.fileno(), batch)
                lost.difference_update(digest for _, _, digest in batch)
                if progress:
                    progress(batch[-1][0] + batch[-1][1], total)
            if lost:
                raise _make_damage_error(path, f"it lacks {min(lost)}")
            for each in listed:
                _require_true_entry(transaction, each, path)
            late_ns = max((each.created_at_ns for each in listed), default=0) - choose_time_ns(store.root)
            _require_canonical_parents(transaction, [each.digest for each in listed], path)
            transaction.publish_listed(
                [
                    (
                        each.digest,
                        make_list_entry(each.kind, each.parents, _shift_time(each.created_at_ns, late_ns)),
                    )
                    for each in listed
                ]
            )
            taken = read_names(store.root)
            for each in listed:
                for name in each.names:
                    if name not in taken:
                        give_name(store.folder, name, each.digest)
            return exported
    except (tarfile.TarError, EOFError, ValueError) as error:  # tarfile raises ValueError for some headers
        raise _make_damage_error(path, str(error)) from error
    except DigestMismatch as error:
        raise DigestMismatch(f"cannot import {path}: {error}", hint="export or copy it again") from error
    except OSError as error:
        raise make_system_error(f"cannot read {path}", error) from error


def _shift_time(created_at_ns: int, late_ns: int) -> int:
    """Move a time back if the archive's latest time is in the future: new artifacts must be newer than it."""
    return max(0, created_at_ns - max(0, late_ns))


def _require_true_entry(transaction: Transaction, listed: _Listed, path: Path) -> None:
    """Raise DigestMismatch unless the archive's list says the same about an artifact as its manifest."""
    try:
        manifest = transaction.get(listed.digest)
    except ArtifactNotFound:
        return  # publishing reports it, with the artifact that needs it
    try:
        require_canonical(manifest, listed.kind, listed.parents)
    except _NO_MANIFEST as error:
        raise _make_damage_error(
            path, f"its list and the manifest {listed.digest.short} disagree: {error}"
        ) from error


def _require_canonical_parents(transaction: Transaction, listed: Sequence[Digest], path: Path) -> None:
    """Raise DigestMismatch if a manifest that the listed ones refer to is not canonical."""
    for digest in transaction.require_closure(listed).manifests - {*listed}:
        try:
            require_canonical(transaction.get(digest))
        except _NO_MANIFEST as error:
            raise _make_damage_error(
                path, f"{digest.short}, which its artifacts refer to: {error}"
            ) from error


def _add_index(archive: tarfile.TarFile, store: Store, digests: Sequence[Digest], all_: set[Digest]) -> None:
    index = {
        "artifacts": [
            {
                "created_at_ns": entry.created_at_ns,
                "digest": entry.digest,
                "kind": _find_kind(store, entry),
                "names": list(entry.names) if entry.digest in digests else [],
                "parents": list(entry.parents),
            }
            for entry in reversed(store.list_artifacts())
            if entry.digest in all_
        ],
        "exported": list(digests),
        "version": _VERSION,
    }
    content = to_canonical(index)
    member = tarfile.TarInfo(_INDEX)
    member.size = len(content)
    archive.addfile(_strip_owner(member), io.BytesIO(content))


def _find_kind(store: Store, entry: ArtifactEntry) -> str:
    """Return the artifact's kind, from its manifest if the list entry is damaged: imports compare both."""
    if entry.kind != "unreadable":
        return entry.kind
    try:
        return str(json.loads(store.get(entry.digest))["kind"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return entry.kind


def _strip_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove the owner and the times of a file, so that equal exports make equal archives."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    member.mode = 0o400
    return member


def _read_batches(archive: tarfile.TarFile, path: Path) -> Iterator[list[tuple[int, int, str]]]:
    """Yield (offset, size in bytes, digest) of the objects. Members' names are never used as paths."""
    batch: list[tuple[int, int, str]] = []
    for member in archive:
        if member.name == _INDEX and member.offset == 0:
            continue
        match = _OBJECT.fullmatch(member.name)
        if match is None or not member.isreg() or member.issparse():
            raise _make_damage_error(path, f"it holds {member.name!r}, which is not an object")
        batch.append((member.offset_data, member.size, match[2]))
        if len(batch) == BATCH_OBJECTS:
            yield batch
            batch = []
    if batch:
        yield batch


def _read_index(archive: tarfile.TarFile, path: Path) -> tuple[list[_Listed], list[Digest]]:
    first = archive.next()
    if first is None or first.name != _INDEX or not first.isreg() or first.size > _MAX_INDEX_BYTES:
        raise _make_damage_error(path, "it does not begin with a list of artifacts")
    content = archive.extractfile(first)
    try:
        index = json.loads(content.read() if content else b"")
        if index["version"] != _VERSION:
            raise Refused(
                f"{path}: archive of version {index['version']!r}, but this package reads version {_VERSION}",
                hint="import it with the kerncap-stages that made it, or a newer one",
            )
        listed = [_parse_entry(entry) for entry in index["artifacts"]]
        exported = [Digest(each) for each in index["exported"]]
        digests = {each.digest for each in listed}
        # The next collection would remove exported artifacts that are not listed.
        if len(digests) < len(listed) or not digests.issuperset(exported):
            raise ValueError
        return listed, list(dict.fromkeys(exported))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _make_damage_error(path, "its list of artifacts is malformed") from error


def _parse_entry(entry: dict[str, Any]) -> _Listed:
    names = tuple(entry["names"])
    if type(entry["created_at_ns"]) is not int or type(entry["kind"]) is not str:
        raise TypeError
    # "memory" is the kind of a chunk list, which is not a manifest.
    if not is_time(entry["created_at_ns"]) or not entry["kind"].isprintable() or entry["kind"] == "memory":
        raise ValueError
    if not all(isinstance(name, str) and can_be_a_name(name) for name in names):
        raise ValueError
    parents = tuple(Digest(parent) for parent in entry["parents"])
    return _Listed(Digest(entry["digest"]), entry["kind"], entry["created_at_ns"], parents, names)


def _make_damage_error(path: Path, reason: str) -> DigestMismatch:
    return DigestMismatch(f"{path} is not a complete archive: {reason}", hint="export or copy it again")
