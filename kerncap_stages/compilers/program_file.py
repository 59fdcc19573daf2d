"""Finds the captured program and its folders, and the files that were changed after it was built."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.manifests.os_strings import to_os_string

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.manifests.capture import Capture

_SYSTEM_FOLDERS = tuple(map(Path, ("/usr", "/bin", "/sbin", "/lib", "/opt")))


def find_working_folder(capture: Capture) -> Path:
    """Return the folder in which the program ran; it may no longer exist."""
    return Path(to_os_string(capture.program.working_directory))


def guess_roots(capture: Capture) -> tuple[Path, ...]:
    """Guess source folders without --source-dir: where the program ran, and where its file is."""
    ran, program = find_working_folder(capture), find_program_file(capture)
    folders = [ran] if ran.is_dir() else []
    if program is not None:
        own = program.resolve().parent
        # A program of the system, such as an interpreter, has no sources of the user beside it.
        of_the_user = not any(map(own.is_relative_to, _SYSTEM_FOLDERS))
        folders += [own] if of_the_user and own != Path(tempfile.gettempdir()) else []
    return tuple(dict.fromkeys(each for each in folders if each not in (Path("/"), Path.home())))


def find_program_file(capture: Capture) -> Path | None:
    """Return the program's file, if it still exists."""
    name, folder = to_os_string(capture.program.command[0]), to_os_string(capture.program.working_directory)
    found = str(Path(folder) / name) if "/" in name else shutil.which(name)
    return Path(found) if found and Path(found).is_file() else None


def find_newer_files(capture: Capture, files: Iterable[Path], consulted: Consulted) -> list[Path]:
    """Return the files that are newer than the program; none if the program no longer exists."""
    program = find_program_file(capture)
    if program is None:
        return []
    built_ns = program.stat().st_mtime_ns
    newer = [file for file in files if file.is_file() and file.stat().st_mtime_ns > built_ns]
    if newer:
        consulted.exists(program)  # the result changes if the program is built again
    return newer
