"""Where the captured program ran and lies, and what was changed since it was built."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.manifests.os_strings import os_string

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.manifests.capture import Capture

_SYSTEM_FOLDERS = tuple(map(Path, ("/usr", "/bin", "/sbin", "/lib", "/opt")))


def working_folder(capture: Capture) -> Path:
    """The folder in which the program ran, which may be gone."""
    return Path(os_string(capture.program.working_directory))


def guessed_roots(capture: Capture) -> tuple[Path, ...]:
    """Without --source-dir: where the program ran and lies, if there may be sources."""
    ran, program = working_folder(capture), program_file(capture)
    folders = [ran] if ran.is_dir() else []
    if program is not None:
        own = program.resolve().parent
        # Beside a program of the system's, as an interpreter, lies nothing of the user's.
        of_the_user = not any(map(own.is_relative_to, _SYSTEM_FOLDERS))
        folders += [own] if of_the_user and own != Path(tempfile.gettempdir()) else []
    return tuple(dict.fromkeys(each for each in folders if each not in (Path("/"), Path.home())))


def program_file(capture: Capture) -> Path | None:
    """The program's own file, where it still is."""
    name, folder = os_string(capture.program.command[0]), os_string(capture.program.working_directory)
    found = str(Path(folder) / name) if "/" in name else shutil.which(name)
    return Path(found) if found and Path(found).is_file() else None


def changed_since_built(capture: Capture, files: Iterable[Path], consulted: Consulted) -> list[Path]:
    """Files that are newer than the program; none where the program is gone."""
    program = program_file(capture)
    if program is None:
        return []
    built_ns = program.stat().st_mtime_ns
    newer = [file for file in files if file.is_file() and file.stat().st_mtime_ns > built_ns]
    if newer:
        consulted.exists(program)  # built again, it is another answer
    return newer
