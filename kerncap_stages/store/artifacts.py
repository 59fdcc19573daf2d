"""The list of artifacts: every stage's output, with its kind, time and parents."""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactNotFound
from kerncap_stages.store.folder import list_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.store.folder import Folder

_MOST_SMALL_BYTES = 16 << 20  # a list entry of 200,000 parents
_LONGEST_NAME = 100
_UNREADABLE = "unreadable"  # the kind of an entry that cannot be read
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@dataclass(frozen=True)
class ArtifactEntry:
    """One listed artifact; times count from 1970, UTC."""

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
    """Whether a file's name or content is a digest."""
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


def fits_as_name(text: str) -> bool:
    """Whether a file in ``names/`` can be a name: what an editor or a file system leaves there is none."""
    return bool(text) and set(text) <= _NAME_CHARACTERS and text[0] not in ".-" and len(text) <= _LONGEST_NAME


def is_time(created_at_ns: int) -> bool:
    """Whether a time of the list can be shown and compared: 64 bits last until the year 2262."""
    return 0 <= created_at_ns < 1 << 63


def list_entry(kind: str, parents: Sequence[Digest], created_at_ns: int) -> bytes:
    """The canonical bytes of an artifact's line in the list."""
    entry = {"created_at_ns": created_at_ns, "kind": kind, "parents": list(parents)}
    return json.dumps(entry, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode() + b"\n"


def next_time_ns(root: Path) -> int:
    """A time for a new artifact: now, or just after the newest of the list if the clock went back.

    What was made last is the latest, whatever the clock says.
    """
    newest = max((entry.created_at_ns for entry in _read_entries(root, {})), default=0)
    now = time.time_ns()
    return max(now, newest + 1) if is_time(newest + 1) else now


def list_again(folder: Folder, digest: Digest) -> None:
    """Make a listed artifact the latest: it is what a stage answers with now.

    Nothing happens if it is the latest already, or not listed any more.
    Raises StoreError if the store cannot be written.
    """
    entries = read_artifacts(folder.root)
    entry = next((entry for entry in entries if entry.digest == digest), None)
    if entry is None or entry == entries[0] or entry.kind == _UNREADABLE:
        return
    line = list_entry(entry.kind, entry.parents, next_time_ns(folder.root))
    folder.rewrite_small(folder.root / "artifacts" / digest, line.decode())


def unlist_artifact(folder: Folder, digest: Digest) -> None:
    """Take an artifact and its names off the list; its objects stay until they are collected."""
    if not (folder.root / "artifacts" / digest).exists():
        raise ArtifactNotFound(f"{digest.short} is not a listed artifact", hint="`kc-store ls` lists them")
    for name, named in read_names(folder.root).items():
        if named == digest:
            folder.remove_small(folder.root / "names" / name)
    folder.remove_small(folder.root / "artifacts" / digest)


def read_artifacts(root: Path) -> list[ArtifactEntry]:
    """Every artifact, newest first. An unreadable entry keeps its digest: it is still a root."""
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
            continue  # taken off the list just now
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            kind, created, parents = _UNREADABLE, 0, ()
        entries.append(ArtifactEntry(digest, kind, created, parents, tuple(sorted(named.get(digest, ())))))
    return entries


def read_names(root: Path) -> dict[str, Digest]:
    """Every name, in order."""
    names = {}
    for file in sorted(list_folder(root, "names")):
        try:
            digest = _named(file)
        except (OSError, ValueError):
            continue
        names[file.name] = digest
    return names


def strays(root: Path) -> dict[str, str]:
    """(path below the store, what is wrong with it) of what lies among the lists and belongs to none."""
    found = {}
    for file in sorted(list_folder(root, "names")):
        try:
            _named(file)
        except FileNotFoundError:
            continue  # taken away just now
        except (OSError, ValueError) as error:
            reason = "it is a link" if file.is_symlink() else str(error)
            found[f"names/{file.name}"] = f"names nothing: {reason}"
    for file in sorted(list_folder(root, "artifacts")):
        if not is_digest(file.name):
            found[f"artifacts/{file.name}"] = "lists nothing: it is not called by a digest"
    for file in sorted(list_folder(root, "actions")):
        if not is_digest(file.name) or not stat.S_ISREG(file.lstat().st_mode):
            found[f"actions/{file.name}"] = "remembers nothing: it is no file that is called by a digest"
    return found


def _named(file: Path) -> Digest:
    """What a file in ``names/`` names. Raises ValueError, with the reason, if it is no name."""
    if not fits_as_name(file.name):
        raise ValueError("it is not called as a name can be")
    text = read_small(file).decode("ascii", "replace").strip()
    if not is_digest(text):
        raise ValueError("it does not hold a digest")
    return Digest(text)


def read_small(path: Path) -> bytes:
    """The content of a small file; a pipe or a link to a device in its place is not waited for."""
    # By the calls alone: for a list of 10,000, file objects cost more than the reading.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError("it is not a file")
        return os.read(fd, min(facts.st_size, _MOST_SMALL_BYTES))
    finally:
        os.close(fd)


def roots(root: Path) -> set[Digest]:
    """What a collection keeps: listed artifacts and what names point at."""
    listed = {Digest(file.name) for file in list_folder(root, "artifacts") if is_digest(file.name)}
    return listed | set(read_names(root).values())
