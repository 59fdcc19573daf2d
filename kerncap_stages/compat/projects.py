"""Find the folders of projects, and code objects in them, by their documented names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import ArtifactError, UsageError
from kerncap_stages.project.folder import find_project_folder, is_project

if TYPE_CHECKING:
    from os import PathLike


def find_project(given: Path) -> Path:
    """Find a project's folder; ``given`` is that folder, or ``capture`` in it.

    Raises ArtifactError if it is neither.
    """
    folder = find_project_folder(given)
    if not is_project(folder):
        what = "is not a generated project" if folder.exists() else "does not exist"
        raise ArtifactError(f"{folder} {what}", hint="`kerncap extract` makes one; give its folder")
    return folder


def find_variant(folder: Path, hsaco: str | PathLike[str] | None) -> Path | None:
    """Find a code object in the current folder, else in the project.

    In a project of a CUDA kernel, ``optimized.hsaco`` also names the cubin or the PTX.
    Raises UsageError if it is in neither folder.
    """
    if hsaco is None:
        return None
    places = [Path(hsaco), folder / hsaco]
    if places[1].suffix == ".hsaco":
        places += [places[1].with_suffix(form) for form in (".cubin", ".ptx")]
    for path in places:
        if path.is_file():
            return path
    raise UsageError(
        f"no such code object: {hsaco} is neither in the working folder nor in {folder}",
        hint="`make recompile` makes one",
    )
