"""Rebuilt code objects in a project's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# What a Triton edit loop leaves, and what `make recompile` does; the first that is there counts.
VARIANTS = ("candidate.hsaco", "optimized.hsaco", "candidate.cubin", "optimized.cubin", "optimized.ptx")


def set_aside(folder: Path) -> tuple[str, ...]:
    """Rename what was built for another kernel, or it would be taken for a variant; returns the old names."""
    names = tuple(name for name in VARIANTS if (folder / name).is_file())
    for name in names:
        (folder / name).rename(folder / f"{name}.old")
    return names


def built_variant(folder: Path) -> Path | None:
    """The rebuilt code object in a folder, if there is one."""
    return next((folder / name for name in VARIANTS if (folder / name).is_file()), None)


def unbuilt_edits(folder: Path) -> list[str]:
    """Sources of a project that were edited where no code object was built of them."""
    from kerncap_stages.project.checkout import edited_files

    if built_variant(folder) is not None:
        return []
    return [path for path in edited_files(folder) if path.startswith(("kernel_variant.", "deps/"))]


def edited_since(folder: Path, variant: Path) -> list[str]:
    """Sources in the folder that were changed after its code object was built."""
    if variant.parent.resolve() != folder.resolve():
        return []
    built_ns = variant.stat().st_mtime_ns
    sources = [*sorted(folder.glob("kernel_variant.*")), *sorted((folder / "deps").rglob("*"))]
    return [
        str(path.relative_to(folder))
        for path in sources
        if path.is_file() and path.stat().st_mtime_ns > built_ns
    ]
