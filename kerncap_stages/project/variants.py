"""Names and finds the rebuilt code objects in a project's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# A Triton edit loop writes candidate.*, `make recompile` writes optimized.*; the first that exists is used.
VARIANTS = ("candidate.hsaco", "optimized.hsaco", "candidate.cubin", "optimized.cubin", "optimized.ptx")
# How they are launched.
SHAPES = tuple(dict.fromkeys(f"{name.partition('.')[0]}.shape.json" for name in VARIANTS))
_INSTRUCTIONS = ("kernel_variant.s", "kernel_variant.ptx")
SOURCES = ("kernel_variant.", "deps/", "triton_sources/", "reproducer.py")


def set_aside(folder: Path) -> tuple[str, ...]:
    """Rename code objects of another kernel, and their launches: nothing shall take them for this one's.

    Returns the names that they had.
    """
    names = tuple(name for name in (*VARIANTS, *SHAPES) if (folder / name).is_file())
    for name in names:
        (folder / name).rename(folder / f"{name}.old")
    return names


def find_edited_instructions(files: Iterable[str]) -> str | None:
    """Find the file in which a project's instructions are edited; None if its source is edited."""
    return next((name for name in files if name in _INSTRUCTIONS), None)


def find_built_variant(folder: Path, prefix: str = "") -> Path | None:
    """Return the rebuilt code object in a folder; None if there is none. ``prefix``: of its name."""
    names = (name for name in VARIANTS if name.startswith(prefix))
    return next((folder / name for name in names if (folder / name).is_file()), None)


def find_timed_variant(folder: Path) -> Path | None:
    """Return the code object that `make bench` times in a folder; None if it is not built."""
    return find_built_variant(folder, "candidate." if (folder / "reproducer.py").is_file() else "optimized.")
