"""Rebuilt code objects in a project's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# What a Triton edit loop leaves, and what `make recompile` does; the first that is there counts.
VARIANTS = ("candidate.hsaco", "optimized.hsaco")


def built_variant(folder: Path) -> Path | None:
    """The rebuilt code object in a folder, if there is one."""
    return next((folder / name for name in VARIANTS if (folder / name).is_file()), None)
