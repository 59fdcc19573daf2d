"""Resolves what users call artifacts: names, the start of a digest, ``@`` for the latest."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from kerncap_stages.digest import SHORT_LENGTH, Digest
from kerncap_stages.errors import ArtifactNotFound, UsageError
from kerncap_stages.store.artifacts import fits_as_name, is_digest, read_artifacts, read_names
from kerncap_stages.store.closure import MAX_LIST_BYTES
from kerncap_stages.store.folder import list_folder

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.store.folder import Folder

_MIN_PREFIX = 4
_MAX_CANDIDATES = 8
# The command that makes an artifact of each kind.
_MADE_BY = {
    "profile": "kc-profile -- ./app",
    "capture": "kc-capture --kernel NAME -- ./app",
    "source": "kc-locate @capture",
    "reproducer": "kc-generate @capture",
    "validation": "kc-validate @capture",
    "evaluation": "kc-evaluate @capture VARIANT...",
    "replay": "kc-replay @capture",
    "files": "kc-store put FILE",
}


def can_be_a_name(name: str) -> bool:
    """Whether a text cannot be mistaken for a digest, a path or `@`."""
    return fits_as_name(name) and not _is_prefix(name.lower())


def give_name(folder: Folder, name: str, digest: Digest) -> None:
    """Give an artifact, listed or not, a name, which also protects it from collection.

    Raises UsageError for a text that cannot be a name, or for an object that is not an artifact;
    ArtifactNotFound if it does not exist.
    """
    if not can_be_a_name(name):
        raise UsageError(
            f"{name!r} cannot be a name",
            hint="letters, digits, `.`, `_` and `-`, not only hexadecimal digits, at most 100",
        )
    with folder.lock_shared():
        if not folder.native.has(digest):
            raise ArtifactNotFound(
                f"no object {digest.short} in the store", hint="`kc-store ls` lists artifacts"
            )
        if not _is_manifest(folder.native.read(digest, MAX_LIST_BYTES, True)):
            raise UsageError(
                f"{digest.short} is not an artifact, so a name would not protect it from collection",
                hint="name the artifact that it belongs to: `kc-store ls` lists artifacts",
            )
        folder.write_small(folder.root / "names" / name, f"{digest}\n")


def _is_manifest(payload: bytes) -> bool:
    try:
        content = json.loads(payload)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("kind") not in (None, "memory")


def take_name(folder: Folder, name: str) -> None:
    """Remove a name.

    Raises ArtifactNotFound if nothing has this name.
    """
    if name not in read_names(folder.root):
        raise ArtifactNotFound(f"nothing is named {name!r}", hint="`kc-store ls` shows the names")
    folder.remove_small(folder.root / "names" / name)


def resolve(root: Path, text: str) -> Digest:
    """Return the artifact that a user means: a digest or its start, a name, ``@``, ``@capture~1``.

    Digits may be upper-case, as other tools print them. Raises ArtifactNotFound if there is none, UsageError
    if there are several.
    """
    text = text.strip()
    if text.startswith("@"):
        return _find_latest(root, text)
    names = read_names(root)
    if text in names:
        return names[text]
    start = text.lower()
    if _is_prefix(start):
        found = _find_listed(root, start) or _find_objects(root, start)
        if len(found) == 1:
            return found[0]
        if found:
            kinds = {entry.digest: entry.kind for entry in read_artifacts(root)}
            raise _make_ambiguity_error(text, {digest: kinds.get(digest, "object") for digest in found})
    hint = "`kc-store ls` lists the artifacts"
    if os.path.isdir(text):  # noqa: PTH112 - before Python 3.14 pathlib raises where a name is too long
        hint += "; kc-show, kc-replay and kc-validate also take a folder that `kc-generate` made"
    raise ArtifactNotFound(f"nothing in the store {root} matches {text!r}", hint=hint)


def _is_prefix(text: str) -> bool:
    return _MIN_PREFIX <= len(text) <= 64 and set(text) <= set("0123456789abcdef")


def _find_listed(root: Path, prefix: str) -> list[Digest]:
    """Find listed artifacts by their file names only: reading all entries of a long list is slow."""
    if len(prefix) == 64:
        return [Digest(prefix)] if (root / "artifacts" / prefix).exists() else []
    files = (file.name for file in list_folder(root, "artifacts"))
    return [Digest(name) for name in files if name.startswith(prefix) and is_digest(name)]


def _find_objects(root: Path, prefix: str) -> list[Digest]:
    """Find objects that are not listed artifacts: chunk lists, files, artifacts removed from the list."""
    folder = root / "objects" / prefix[:2]
    if len(prefix) == 64:
        return [Digest(prefix)] if (folder / prefix).exists() else []
    files = folder.glob(f"{prefix}*") if folder.is_dir() else []
    return [Digest(file.name) for file in files if is_digest(file.name)]


def _make_ambiguity_error(text: str, found: dict[Digest, str]) -> UsageError:
    shown = [
        f"{digest[: max(len(text) + 4, SHORT_LENGTH)]} ({kind})" for digest, kind in sorted(found.items())
    ]
    more = [f"and {len(shown) - _MAX_CANDIDATES} more"] if len(shown) > _MAX_CANDIDATES else []
    return UsageError(
        f"{text!r} is the start of {len(found)} digests: {', '.join(shown[:_MAX_CANDIDATES] + more)}",
        hint="give more digits",
    )


def _find_latest(root: Path, text: str) -> Digest:
    kind, _, back = text[1:].partition("~")
    if ("~" in text) != back.isdecimal():
        raise UsageError(f"{text!r} is not an artifact", hint="`@capture~1` is the capture before the latest")
    entries = [entry for entry in read_artifacts(root) if not kind or entry.kind == kind]
    index = int(back or 0)
    if index >= len(entries):
        raise _make_too_few_error(root, text, kind, len(entries))
    return entries[index].digest


def _make_too_few_error(root: Path, text: str, kind: str, count: int) -> ArtifactNotFound:
    if kind and kind not in _MADE_BY:
        return ArtifactNotFound(
            f"{text}: there is no kind of artifact called {kind!r}",
            hint=f"the kinds are {', '.join(_MADE_BY)}",
        )
    what = kind or "artifact"
    found = f"{'are' if what == 'files' else 'is'} no {what} yet" if count == 0 else f"is only 1 {what}"
    if count > 1:
        found = f"are only {count} of kind {kind}" if kind else f"are only {count} artifacts"
    made_by = _MADE_BY[kind or "profile"]
    hint = f"`{made_by}` makes one; another store is named by --store DIR or KERNCAP_STORE"
    return ArtifactNotFound(f"{text}: there {found} in the store {root}", hint=hint)
