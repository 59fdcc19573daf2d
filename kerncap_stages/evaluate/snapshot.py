"""Copies what a build reads in a project: neither the user's edits nor a build change it meanwhile."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from kerncap_stages.compilers.consulted import HEADER_SUFFIXES
from kerncap_stages.compilers.edited_script import MADE_HEADERS
from kerncap_stages.evaluate.regular import read_regular_file
from kerncap_stages.project.folder import CAPTURE, list_written_files
from kerncap_stages.project.variants import VARIANTS

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_FILE_BYTES = 256 << 20
_LEFT_OUT = (*VARIANTS, "built.sha256", *MADE_HEADERS)


def copy_project(project: Path, source: str, place: Path) -> None:
    """Copy what kc-generate wrote, without the capture, and what lies beside it in its folders.

    Besides, the user's own headers. Nothing else: variants may lie in the project, too. What a link leads to
    is copied, not the link, because ``source`` is written over in copies. Of a link to ``source`` itself
    there is no copy: make makes it.
    """
    own = (project / source).resolve()
    for below in list_build_files(project):
        path = project / below
        if path.is_symlink() and str(below) != source and path.resolve() == own:
            continue
        with contextlib.suppress(OSError, ValueError):  # it is gone, a pipe, or too large
            content = read_regular_file(path, _MAX_FILE_BYTES)
            target = place / below
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            shutil.copystat(path, target)
            target.chmod(target.stat().st_mode | 0o600)


def list_build_files(project: Path) -> list[PurePosixPath]:
    """Return what a build of a project may read there, by the paths below it."""
    return [each for each in dict.fromkeys(_list_files(project)) if each.name not in _LEFT_OUT]


def _list_files(project: Path) -> Iterator[PurePosixPath]:
    written = [PurePosixPath(each) for each in list_written_files(project)]
    ours = [each for each in written if each.parts[0] != CAPTURE]
    yield from ours
    with contextlib.suppress(OSError):
        beside = sorted(each.name for each in project.iterdir() if each.suffix in HEADER_SUFFIXES)
        yield from map(PurePosixPath, beside)
    for top in dict.fromkeys(each.parts[0] for each in ours if len(each.parts) > 1):
        for folder, _, names in os.walk(project / top):
            yield from (PurePosixPath(Path(folder, name).relative_to(project)) for name in sorted(names))
