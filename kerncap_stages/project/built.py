"""Of what the code object in a project's folder was built."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from kerncap_stages.project.checkout import edited_files, is_project
from kerncap_stages.project.variants import SOURCES, built_variant

if TYPE_CHECKING:
    from pathlib import Path

BUILT = "built.sha256"  # make leaves it beside what it built


def about_variant(folder: Path, variant: Path) -> list[str]:
    """What people must know of a code object in a project's folder: of what it was built.

    `make recompile` and `make assemble` leave digests of what they built, and of what. Of other files
    their times tell.
    """
    if variant.parent.resolve() != folder.resolve():
        return []
    built = _digests(folder / BUILT)
    is_ours = variant.name.startswith("optimized.") and is_project(folder)
    if is_ours and _digest(variant) != built.get(variant.name):
        return [
            f"{variant} is not what make built in this folder (copied, linked, or built by hand), and is "
            f"taken as it is; remove it and `make {variant.name}` to build the sources"
        ]
    edited = (
        [name for name in built if name.startswith(SOURCES) and _digest(folder / name) != built[name]]
        if is_ours
        else _newer(folder, variant.stat().st_mtime_ns)
    )
    return [f"{name} was edited after {variant} was built: `make {variant.name}`" for name in edited]


def _digests(record: Path) -> dict[str, str]:
    """By name, what sha256sum wrote; nothing where it is not there or is something else."""
    try:
        lines = record.read_text().splitlines()
    except (OSError, ValueError):
        return {}
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _newer(folder: Path, built_ns: int) -> list[str]:
    sources = [*sorted(folder.glob("kernel_variant.*")), *sorted((folder / "deps").rglob("*"))]
    return [
        str(path.relative_to(folder))
        for path in sources
        if path.is_file() and path.stat().st_mtime_ns > built_ns
    ]


def unbuilt_edits(folder: Path) -> list[str]:
    """Sources of a project that were edited where no code object was built of them."""
    if built_variant(folder) is not None:
        return []
    return [path for path in edited_files(folder) if path.startswith(SOURCES)]
