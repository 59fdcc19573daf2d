"""How much room artifacts take, and how much of it they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kerncap_stages.digest import Digest


@dataclass(frozen=True)
class Usage:
    """Sizes in bytes: payloads as a reader sees them, files on disk, and of these what others use too."""

    objects: int
    logical_bytes: int
    stored_bytes: int
    shared_bytes: int


def object_path(root: Path, digest: Digest) -> Path:
    """Where an object lies."""
    return root / "objects" / digest[:2] / digest


def size_on_disk(root: Path, digests: Iterable[Digest]) -> int:
    """Size of the objects' files; absent ones count nothing."""
    total = 0
    for digest in digests:
        try:
            total += object_path(root, digest).stat().st_size
        except FileNotFoundError:
            continue
    return total
