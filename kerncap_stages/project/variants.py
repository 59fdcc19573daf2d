"""Rebuilt code objects in a project's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# What a Triton edit loop leaves, and what `make recompile` does; the first that is there counts.
VARIANTS = ("candidate.hsaco", "optimized.hsaco", "candidate.cubin", "optimized.cubin", "optimized.ptx")
SOURCES = ("kernel_variant.", "deps/")


def set_aside(folder: Path) -> tuple[str, ...]:
    """Rename what was built for another kernel, or it would be taken for a variant; returns the old names."""
    names = tuple(name for name in VARIANTS if (folder / name).is_file())
    for name in names:
        (folder / name).rename(folder / f"{name}.old")
    return names


def built_variant(folder: Path) -> Path | None:
    """The rebuilt code object in a folder, if there is one."""
    return next((folder / name for name in VARIANTS if (folder / name).is_file()), None)
