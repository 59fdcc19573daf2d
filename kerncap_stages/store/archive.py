"""A closure as one file: a tar archive of objects as they lie in a store, with a list of artifacts first."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError, DigestMismatch, UsageError
from kerncap_stages.store.artifacts import give_name, list_artifact, read_names
from kerncap_stages.store.closure import walk
from kerncap_stages.store.folder import system_error
from kerncap_stages.store.usage import object_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kerncap_stages.store.store import Store

_INDEX = "kerncap-archive.json"
_VERSION = 1
_OBJECT = re.compile(r"objects/[0-9a-f]{2}/([0-9a-f]{64})")
_MOST_INDEX_BYTES = 64 << 20


def export(
    store: Store, digests: Sequence[Digest], path: Path, progress: Callable[[int, int], None] | None
) -> None:
    """Write the closures of artifacts; the file appears whole or not at all.

    Raises ArtifactError if something that they need is missing.
    """
    closure = walk(digests, store.read_unlocked, store.has)
    if closure.missing:
        absent = next(iter(closure.missing))
        raise ArtifactError(
            f"cannot export: object {absent.short} is missing or damaged", hint="`kc-store check` tells more"
        )
    listed = [entry for entry in store.artifacts() if entry.digest in closure.kinds]
    index = {
        "version": _VERSION,
        "artifacts": [
            {
                "digest": entry.digest,
                "kind": entry.kind,
                "parents": list(entry.parents),
                "names": list(entry.names) if entry.digest in digests else [],
            }
            for entry in reversed(listed)
        ],
        "exported": list(digests),
    }
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with tarfile.open(temporary, "x:", format=tarfile.PAX_FORMAT) as archive:
            _add(archive, _INDEX, (json.dumps(index, indent=1, sort_keys=True) + "\n").encode())
            for done, digest in enumerate(sorted(closure.kinds)):
                archive.add(object_path(store.root, digest), f"objects/{digest[:2]}/{digest}", filter=_plain)
                if progress:
                    progress(done + 1, len(closure.kinds))
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise system_error(f"cannot write {path}", error) from error
    finally:
        temporary.unlink(missing_ok=True)


def import_(store: Store, path: Path, progress: Callable[[int, int], None] | None) -> list[Digest]:
    """Add an archive's artifacts; every object is verified, and nothing appears unless all is there.

    Returns the artifacts that were exported. Raises DigestMismatch for anything but a whole archive.
    """
    try:
        with tarfile.open(path, "r:") as archive, path.open("rb") as file, store.transaction() as transaction:
            index = _read_index(archive, path)
            total = path.stat().st_size
            given: set[Digest] = set()
            for member in archive:
                match = _OBJECT.fullmatch(member.name)
                if member.name == _INDEX:
                    continue
                if match is None or not member.isreg():
                    raise _damaged(path, f"it holds {member.name!r}, which is no object")
                digest = Digest(match[1])
                transaction.adopt(file.fileno(), member.offset_data, member.size, digest)
                given.add(digest)
                if progress:
                    progress(member.offset_data + member.size, total)
            transaction.publish_objects()
            return _list(store, index, path)
    except (tarfile.TarError, EOFError) as error:
        raise _damaged(path, str(error)) from error
    except OSError as error:
        raise system_error(f"cannot read {path}", error) from error


def _read_index(archive: tarfile.TarFile, path: Path) -> dict[str, list[dict[str, list[str]]]]:
    first = archive.next()
    if first is None or first.name != _INDEX or not first.isreg() or first.size > _MOST_INDEX_BYTES:
        raise _damaged(path, "it does not begin with a list of artifacts")
    content = archive.extractfile(first)
    try:
        index = json.loads(content.read() if content else b"")
        version = index["version"]
        if version != _VERSION:
            raise UsageError(
                f"{path} is an archive of version {version!r}, and this package reads version {_VERSION}",
                hint="import it with the kerncap-stages that made it, or a newer one",
            )
        for entry in index["artifacts"]:
            Digest(entry["digest"]), [Digest(parent) for parent in entry["parents"]]
        [Digest(digest) for digest in index["exported"]]
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, "its list of artifacts is malformed") from error
    return index  # type: ignore[no-any-return]


def _list(store: Store, index: dict[str, list[dict[str, list[str]]]], path: Path) -> list[Digest]:
    exported = [Digest(str(digest)) for digest in index["exported"]]
    closure = walk(exported, store.read_unlocked, store.has)
    if closure.missing:
        raise _damaged(path, f"object {next(iter(closure.missing)).short} is not in it")
    taken = read_names(store.root)
    for entry in index["artifacts"]:
        digest = Digest(str(entry["digest"]))
        if closure.kinds.get(digest) != "manifest":
            raise _damaged(path, f"{digest.short} is listed and not in it")
        list_artifact(store.root, digest, str(entry["kind"]), [Digest(each) for each in entry["parents"]])
        for name in entry["names"]:
            if name not in taken:
                give_name(store.root, name, digest)
    return exported


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who made a file and when: equal closures make equal archives."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    member.mode = 0o400
    return member


def _damaged(path: Path, reason: str) -> DigestMismatch:
    return DigestMismatch(f"{path} is not a whole archive: {reason}", hint="export it again")
