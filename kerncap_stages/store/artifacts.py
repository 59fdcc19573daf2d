"""Reads and writes the list of artifacts, with their kinds, times and parents, and their names."""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactNotFound
from kerncap_stages.manifests import to_canonical
from kerncap_stages.store.folder import list_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.store.folder import Folder

_MAX_SMALL_BYTES = 16 << 20  # a list entry of 200,000 parents
_MAX_NAME_LENGTH = 100
_UNREADABLE = "unreadable"  # the kind of an entry that cannot be read
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@dataclass(frozen=True)
class ArtifactEntry:
    """A listed artifact; times count from 1970, UTC."""

    digest: Digest
    kind: str
    created_at_ns: int
    parents: tuple[Digest, ...]
    names: tuple[str, ...]

    @property
    def created_at(self) -> float:
        """The time in seconds."""
        return self.created_at_ns / 1e9


def is_digest(text: str) -> bool:
    """Whether a text is a digest."""
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


def fits_as_name(text: str) -> bool:
    """Whether a file in ``names/`` can be a name, not one that an editor or a file system left there."""
    return (
        bool(text) and set(text) <= _NAME_CHARACTERS and text[0] not in ".-" and len(text) <= _MAX_NAME_LENGTH
    )


def is_time(created_at_ns: int) -> bool:
    """Whether a time in the list can be shown and compared: 64 bits last until the year 2262."""
    return 0 <= created_at_ns < 1 << 63


def make_list_entry(kind: str, parents: Sequence[Digest], created_at_ns: int) -> bytes:
    """Make the canonical bytes of an artifact's list entry."""
    return to_canonical({"created_at_ns": created_at_ns, "kind": kind, "parents": list(parents)})


def choose_time_ns(root: Path) -> int:
    """Choose the time of a new artifact: now, or just after the newest in the list if the clock went back.

    So the artifact that was made last is always the latest.
    """
    newest = max((entry.created_at_ns for entry in _read_entries(root, {})), default=0)
    now = time.time_ns()
    return max(now, newest + 1) if is_time(newest + 1) else now


def list_again(folder: Folder, digest: Digest) -> None:
    """Make a listed artifact the latest, because it is the result of a stage that ran now.

    Does nothing if it is the latest already or is not listed any more.
    Raises StoreError if the store cannot be written.
    """
    entries = read_artifacts(folder.root)
    entry = next((entry for entry in entries if entry.digest == digest), None)
    if entry is None or entry == entries[0] or entry.kind == _UNREADABLE:
        return
    line = make_list_entry(entry.kind, entry.parents, choose_time_ns(folder.root))
    folder.rewrite_small(folder.root / "artifacts" / digest, line.decode())


def unlist_artifact(folder: Folder, digest: Digest) -> None:
    """Remove an artifact and its names from the list; its objects stay until they are collected."""
    if not (folder.root / "artifacts" / digest).exists():
        raise ArtifactNotFound(f"{digest.short} is not a listed artifact", hint="`kc-store ls` lists them")
    for name, named in read_names(folder.root).items():
        if named == digest:
            folder.remove_small(folder.root / "names" / name)
    folder.remove_small(folder.root / "artifacts" / digest)


def read_artifacts(root: Path) -> list[ArtifactEntry]:
    """Return all artifacts, newest first. An unreadable entry has its digest only: it is still a root."""
    named: dict[Digest, list[str]] = {}
    for name, digest in read_names(root).items():
        named.setdefault(digest, []).append(name)
    entries = _read_entries(root, named)
    return sorted(entries, key=lambda entry: (-entry.created_at_ns, entry.digest))


def _read_entries(root: Path, named: dict[Digest, list[str]]) -> list[ArtifactEntry]:
    entries = []
    for file in list_folder(root, "artifacts"):
        if not is_digest(file.name):
            continue
        digest = Digest(file.name)
        try:
            content = json.loads(read_small(file))
            kind, created = str(content["kind"]), int(content["created_at_ns"])
            parents = tuple(Digest(parent) for parent in content["parents"])
            if not is_time(created):
                raise ValueError
        except FileNotFoundError:
            continue  # removed from the list just now
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            kind, created, parents = _UNREADABLE, 0, ()
        entries.append(ArtifactEntry(digest, kind, created, parents, tuple(sorted(named.get(digest, ())))))
    return entries


def read_names(root: Path) -> dict[str, Digest]:
    """Return all names with their artifacts, in alphabetical order."""
    names = {}
    for file in sorted(list_folder(root, "names")):
        try:
            digest = _read_name(file)
        except (OSError, ValueError):
            continue
        names[file.name] = digest
    return names


def find_strays(root: Path) -> dict[str, str]:
    """Return the files in the folders of lists that do not belong there: path in the store, and reason."""
    found = {}
    for file in sorted(list_folder(root, "names")):
        try:
            _read_name(file)
        except FileNotFoundError:
            continue  # removed just now
        except (OSError, ValueError) as error:
            reason = "it is a link" if file.is_symlink() else str(error)
            found[f"names/{file.name}"] = f"is not a name: {reason}"
    for file in sorted(list_folder(root, "artifacts")):
        if not is_digest(file.name):
            found[f"artifacts/{file.name}"] = "is not a list entry: its name is not a digest"
    for file in sorted(list_folder(root, "actions")):
        if not is_digest(file.name) or not stat.S_ISREG(file.lstat().st_mode):
            found[f"actions/{file.name}"] = "is not an entry of the cache: not a file named by a digest"
    return found


def _read_name(file: Path) -> Digest:
    """Return the artifact that a file in ``names/`` names. Raises ValueError, with the reason, otherwise."""
    if not fits_as_name(file.name):
        raise ValueError("no name is spelled like this")
    text = read_small(file).decode("ascii", "replace").strip()
    if not is_digest(text):
        raise ValueError("it does not hold a digest")
    return Digest(text)


def read_small(path: Path) -> bytes:
    """Return the content of a small file. Raises ValueError for a pipe or a device, which could block."""
    # System calls only: for a list of 10,000 entries, file objects would take longer than the reading.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError("it is not a file")
        return os.read(fd, min(facts.st_size, _MAX_SMALL_BYTES))
    finally:
        os.close(fd)


def find_roots(root: Path) -> set[Digest]:
    """Return what a collection keeps: listed artifacts and named ones."""
    listed = {Digest(file.name) for file in list_folder(root, "artifacts") if is_digest(file.name)}
    return listed | set(read_names(root).values())
