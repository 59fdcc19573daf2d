"""The list of artifacts: every stage's output, with its kind, time and parents."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.digest import DIGEST_PATTERN, Digest
from kerncap_stages.errors import ArtifactNotFound, UsageError
from kerncap_stages.store.folder import remove_small, write_small

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_DIGEST_LENGTH = 64
_SHORTEST_PREFIX = 4
_MOST_CANDIDATES = 8
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


def list_artifact(root: Path, digest: Digest, kind: str, parents: Sequence[Digest]) -> None:
    """Put an artifact on the list; one made again becomes the latest."""
    entry = {"created_at_ns": time.time_ns(), "kind": kind, "parents": list(parents)}
    write_small(root, root / "artifacts" / digest, json.dumps(entry, sort_keys=True) + "\n")


def unlist_artifact(root: Path, digest: Digest) -> None:
    """Take an artifact and its names off the list; its objects stay until they are collected."""
    if not (root / "artifacts" / digest).exists():
        raise ArtifactNotFound(f"{digest.short} is not a listed artifact", hint="`kc-store ls` lists them")
    for name, named in read_names(root).items():
        if named == digest:
            remove_small(root / "names" / name)
    remove_small(root / "artifacts" / digest)


def read_artifacts(root: Path) -> list[ArtifactEntry]:
    """Every artifact, newest first. An unreadable entry keeps its digest: it is still a root."""
    named: dict[Digest, list[str]] = {}
    for name, digest in read_names(root).items():
        named.setdefault(digest, []).append(name)
    entries = []
    for file in os.scandir(root / "artifacts"):
        if not _is_digest(file.name):
            continue
        digest = Digest(file.name)
        try:
            content = json.loads((root / "artifacts" / file.name).read_text(encoding="utf-8"))
            kind, created = str(content["kind"]), int(content["created_at_ns"])
            parents = tuple(Digest(parent) for parent in content["parents"])
        except FileNotFoundError:
            continue  # taken off the list just now
        except (OSError, ValueError, KeyError, TypeError):
            kind, created, parents = "unreadable", 0, ()
        entries.append(ArtifactEntry(digest, kind, created, parents, tuple(sorted(named.get(digest, ())))))
    return sorted(entries, key=lambda entry: (-entry.created_at_ns, entry.digest))


def read_names(root: Path) -> dict[str, Digest]:
    """Every name, in order."""
    names = {}
    for file in sorted(entry.name for entry in os.scandir(root / "names")):
        try:
            text = (root / "names" / file).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if _is_digest(text):
            names[file] = Digest(text)
    return names


def give_name(root: Path, name: str, digest: Digest) -> None:
    """Let ``name`` mean an artifact.

    Raises UsageError for a name that could be mistaken for a digest, a path or `@`.
    """
    plain = bool(name) and set(name) <= _NAME_CHARACTERS and name[0] not in ".-" and len(name) <= 100
    hexadecimal = len(name) >= _SHORTEST_PREFIX and set(name) <= set("0123456789abcdef")
    if not plain or hexadecimal:
        raise UsageError(
            f"{name!r} cannot be a name",
            hint="letters, digits, `.`, `_` and `-`, not only hexadecimal digits, at most 100",
        )
    write_small(root, root / "names" / name, f"{digest}\n")


def take_name(root: Path, name: str) -> None:
    """Forget a name.

    Raises ArtifactNotFound if nothing bears it.
    """
    if name not in read_names(root):
        raise ArtifactNotFound(f"nothing is named {name!r}", hint="`kc-store ls` shows the names")
    remove_small(root / "names" / name)


def resolve(root: Path, text: str) -> Digest:
    """What a user's text means: a digest, the start of one, a name, ``@``, ``@capture``, ``@capture~1``.

    Raises ArtifactNotFound if it means nothing, UsageError if it means several.
    """
    if text.startswith("@"):
        return _latest(root, text)
    names = read_names(root)
    if text in names:
        return names[text]
    entries = read_artifacts(root)
    matches = [entry for entry in entries if entry.digest.startswith(text)] if _is_prefix(text) else []
    if len(matches) == 1:
        return matches[0].digest
    if len(matches) > 1:
        listed = ", ".join(f"{entry.digest[:16]} ({entry.kind})" for entry in matches[:_MOST_CANDIDATES])
        raise UsageError(
            f"{text!r} is the start of {len(matches)} artifacts: {listed}", hint="give more digits"
        )
    if _is_digest(text) and (root / "objects" / text[:2] / text).exists():
        return Digest(text)
    raise ArtifactNotFound(f"no artifact answers to {text!r}", hint="`kc-show` lists the latest artifacts")


def _latest(root: Path, text: str) -> Digest:
    kind, _, back = text[1:].partition("~")
    if back and not back.isdecimal():
        raise UsageError(f"{text!r} is not an artifact", hint="`@capture~1` is the capture before the latest")
    entries = [entry for entry in read_artifacts(root) if not kind or entry.kind == kind]
    index = int(back or 0)
    if index >= len(entries):
        what = f"{kind} artifact" if kind else "artifact"
        raise ArtifactNotFound(
            f"{text!r}: the store has {len(entries)} {what}s", hint="`kc-store ls` lists the artifacts"
        )
    return entries[index].digest


def _is_digest(text: str) -> bool:
    import re

    return re.fullmatch(DIGEST_PATTERN, text) is not None and len(text) == _DIGEST_LENGTH


def _is_prefix(text: str) -> bool:
    return _SHORTEST_PREFIX <= len(text) <= _DIGEST_LENGTH and set(text) <= set("0123456789abcdef")
