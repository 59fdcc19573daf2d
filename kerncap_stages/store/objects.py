"""Lists, measures and checks the files in ``objects/``."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from kerncap_stages import _native
from kerncap_stages.digest import Digest
from kerncap_stages.store.folder import list_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kerncap_stages.store.store import Store

    Progress = Callable[[int, int], None]  # bytes on disk that are done, and their total

_FOLDER = re.compile(r"[0-9a-f]{2}")
_NAME = re.compile(r"[0-9a-f]{64}")

# The objects of one call into native code. Between calls progress is reported, and others can get the lock.
BATCH_OBJECTS = 1024


def list_stored_objects(root: Path) -> tuple[dict[Digest, int], list[str]]:
    """Return the sizes on disk of all objects, in order, and the paths of files that are not objects."""
    sizes: dict[Digest, int] = {}
    strays = []
    for path in sorted(list_folder(root, "objects")):
        folder = path.name
        if not _FOLDER.fullmatch(folder) or not path.is_dir():
            strays.append(folder)
            continue
        for file in sorted(os.scandir(path), key=lambda entry: entry.name):
            if not _NAME.fullmatch(file.name) or file.name[:2] != folder:
                strays.append(f"{folder}/{file.name}")
                continue
            if file.is_dir(follow_symlinks=False):
                strays.append(f"{folder}/{file.name}")  # nobody can read it, and unlink would fail
                continue
            try:
                sizes[Digest(file.name)] = file.stat(follow_symlinks=False).st_size
            except FileNotFoundError:
                continue  # collected just now
    return sizes, strays


def sum_sizes(root: Path, digests: set[Digest]) -> int:
    """Return the size on disk of some objects together, without those that do not exist."""
    total = 0
    for digest in digests:
        try:
            total += (root / "objects" / digest[:2] / digest).stat().st_size
        except FileNotFoundError:
            continue
    return total


def find_damaged(store: Store, digests: Sequence[Digest]) -> dict[Digest, str]:
    """Read objects, and return those that are damaged, missing or cannot be read, with a message each."""
    found = {}
    for start in range(0, len(digests), BATCH_OBJECTS):
        batch = list[str](digests[start : start + BATCH_OBJECTS])
        for digest, _, message in _native.check_objects(store.folder.native, batch):
            found[Digest(digest)] = message
    return found
