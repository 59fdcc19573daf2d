"""Tells which sources the code object in a project's folder was built from, and which were edited since."""

from __future__ import annotations

import contextlib
import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest
from kerncap_stages.errors import Refused
from kerncap_stages.project.folder import find_edited_files, hash_file, is_project
from kerncap_stages.project.variants import (
    SOURCES,
    VARIANTS,
    find_built_variant,
    find_edited_instructions,
    find_timed_variant,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BUILT = "built.sha256"  # make writes it next to the code object
_MAX_BYTES = 1 << 20
_DEVICES = ("/dev/", "/proc/", "/sys/")  # reading these may never end, and a project may be anybody's


@dataclass(frozen=True)
class Built:
    """What make recorded of a build: the SHA-256 of code objects and of the files that it read, by name."""

    code: dict[str, Digest]
    sources: dict[str, Digest]

    def find_edited(self, folder: Path) -> list[str]:
        """Return the files whose contents are not any more what make read.

        The project may be on another machine: a file of another folder counts only if it is there.
        """
        return [
            name
            for name, digest in self.sources.items()
            if (not name.startswith("/") or (folder / name).exists()) and hash_file(folder / name) != digest
        ]


def read_built(folder: Path) -> Built:
    """Read the record of the last `make recompile` or `make assemble`; empty if there is none."""
    try:
        with (folder / BUILT).open("rb") as file:
            lines = file.read(_MAX_BYTES).decode().splitlines()
    except (OSError, ValueError):
        lines = []
    found: dict[str, Digest] = {}
    for digest, _, name in (line.partition("  ") for line in lines):
        parts = name.removeprefix("/").split("/")
        is_plain = name.isprintable() and "\\" not in name and not {"", ".", ".."} & {*parts}
        if is_plain and not name.startswith(_DEVICES):
            with contextlib.suppress(ValueError):
                found[name] = Digest(digest)
    return Built(
        {name: digest for name, digest in found.items() if name in VARIANTS},
        {name: digest for name, digest in found.items() if name not in VARIANTS},
    )


def require_current(folder: Path, variant: Path) -> None:
    """Raise Refused for the variant of a project if files that make read have other contents by now.

    What make recorded decides, and no time: to touch a file is no edit. A code object that make did not build
    is not refused, because nothing tells what it was built from.
    """
    if _is_by_make(folder, variant) and (edited := read_built(folder).find_edited(folder)):
        raise Refused(
            f"{describe_changes(folder, edited)} after {variant} was built",
            hint=f"{suggest_build(folder, edited)}; "
            f"`--variant {shlex.quote(str(variant))}` takes it as it is",
        )


def describe_changes(folder: Path, names: Sequence[str]) -> str:
    """Say which files of a project were edited, and which were deleted: ``a.hpp, b.hpp was edited``."""
    deleted = [name for name in names if not os.path.lexists(folder / name)]
    edited = [name for name in names if name not in deleted]
    said = ((edited, "edited"), (deleted, "deleted"))
    return " and ".join(f"{', '.join(some)} was {how}" for some, how in said if some)


def suggest_build(folder: Path, edited: Sequence[str]) -> str:
    """Return the command that builds a project whose files were edited."""
    target = "assemble" if find_edited_instructions(edited) else "recompile"
    if os.access(folder, os.W_OK):
        return f"`{shlex.join(['make', '-C', str(folder), target])}`"
    return f"copy the project to a folder that you may write to (cp -r) and `make {target}` there"


def warn_of_stale_variant(folder: Path, variant: Path) -> list[str]:
    """Return warnings about a code object in a project's folder that was not built from the present sources.

    `make recompile` and `make assemble` write the digests of the code object and of the files that they read.
    Any other code object is compared with the sources by modification time.
    """
    if not _is_in(folder, variant):
        return []
    is_by_make = _is_by_make(folder, variant)
    if not is_by_make and variant.name.startswith("optimized.") and is_project(folder):
        return [
            f"{variant} was not built by make in this folder (copied, linked, or built by hand) and is used "
            f"as it is; to build it from the sources, remove it and run `make {variant.name}`"
        ]
    edited = (
        read_built(folder).find_edited(folder)
        if is_by_make
        else _find_newer(folder, variant.stat().st_mtime_ns)
    )
    return [
        f"{describe_changes(folder, [name])} after {variant} was built: run `make {variant.name}`"
        for name in edited
    ]


def explain_judged(folder: Path, variant: Path) -> str:
    """Name the code object that was chosen in a project to be judged, and another one that make times."""
    return f"judging {variant}" + _name_other(variant, "`make bench` times", find_timed_variant(folder))


def explain_timed(folder: Path, variant: Path) -> str:
    """Name the code object of a project that make times, and another one that kc-validate judges."""
    return f"timing {variant}" + _name_other(variant, "`kc-validate .` judges", find_built_variant(folder))


def _name_other(variant: Path, does: str, other: Path | None) -> str:
    if other is None or hash_file(other) == hash_file(variant):
        return ""
    return f"; {does} {other.name}, which is another code object"


def _is_in(folder: Path, variant: Path) -> bool:
    return variant.parent.resolve() == folder.resolve()


def _is_by_make(folder: Path, variant: Path) -> bool:
    recorded = read_built(folder).code.get(variant.name) if _is_in(folder, variant) else None
    return recorded is not None and hash_file(variant) == recorded


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
