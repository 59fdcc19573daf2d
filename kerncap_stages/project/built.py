"""Tells which sources the code object in a project's folder was built from, and which were edited since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.project.checkout import find_edited_files, hash_file, is_project
from kerncap_stages.project.variants import SOURCES, find_built_variant

if TYPE_CHECKING:
    from pathlib import Path

BUILT = "built.sha256"  # make writes it next to the code object


def warn_of_stale_variant(folder: Path, variant: Path) -> list[str]:
    """Return warnings about a code object in a project's folder that was not built from the present sources.

    `make recompile` and `make assemble` write the digests of the code object and of the sources that they
    built it from. Any other code object is compared with the sources by modification time.
    """
    if variant.parent.resolve() != folder.resolve():
        return []
    built = _read_digests(folder / BUILT)
    is_ours = variant.name.startswith("optimized.") and is_project(folder)
    if is_ours and hash_file(variant) != built.get(variant.name):
        return [
            f"{variant} was not built by make in this folder (copied, linked, or built by hand) and is used "
            f"as it is; to build it from the sources, remove it and run `make {variant.name}`"
        ]
    edited = (
        [name for name in built if name.startswith(SOURCES) and hash_file(folder / name) != built[name]]
        if is_ours
        else _find_newer(folder, variant.stat().st_mtime_ns)
    )
    return [f"{name} was edited after {variant} was built: run `make {variant.name}`" for name in edited]


def _read_digests(record: Path) -> dict[str, str]:
    """Read the output of sha256sum, by file name; empty where the file is missing or holds something else."""
    try:
        lines = record.read_text().splitlines()
    except (OSError, ValueError):
        return {}
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _find_newer(folder: Path, built_ns: int) -> list[str]:
    sources = [
        *sorted(folder.glob("kernel_variant.*")),
        *sorted((folder / "deps").rglob("*")),
        *sorted((folder / "triton_sources").rglob("*.py")),
        folder / "reproducer.py",
    ]
    return [
        str(path.relative_to(folder))
        for path in sources
        if path.is_file() and path.stat().st_mtime_ns > built_ns
    ]


def find_unbuilt_edits(folder: Path) -> list[str]:
    """Return the edited sources of a project in which no code object was built yet."""
    if find_built_variant(folder) is not None:
        return []
    return [path for path in find_edited_files(folder) if path.startswith(SOURCES)]
