"""The environments in which the commands of a checkout run: pinned packages and the checkout's wheel.

Each wheel with other content gets a new environment, so no file is replaced under a running command. The next
build removes environments that no command uses.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_LOCK = "in-use"
_WHOLE = "whole"


def is_whole(folder: Path) -> bool:
    """Whether the environment is complete."""
    return (folder / _WHOLE).exists()


def use(folder: Path) -> None:
    """Keep an environment until this process ends."""
    lock = os.open(folder / _LOCK, os.O_RDONLY | os.O_CREAT, 0o600)  # closed when the process ends
    fcntl.flock(lock, fcntl.LOCK_SH)


def remove_unused(folders: Iterable[Path]) -> None:
    """Remove the environments that no process uses. The caller must keep others from starting to."""
    for folder in folders:
        lock = os.open(folder / _LOCK, os.O_RDONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)
        shutil.rmtree(folder)


def make_pinned(
    folder: Path,
    constraints: Path,
    requirements: Iterable[str],
    call: Callable[..., None],
    python: str | Path = sys.executable,
) -> None:
    """Install the packages that building, testing and the stages need, at the versions of ``constraints``."""
    shutil.rmtree(folder, ignore_errors=True)
    call(python, "-m", "venv", folder)
    # Compile the bytecode once now, not at the first import of each test run.
    call(folder / "bin/pip", "install", "-q", "-c", constraints, *requirements,
         variables={"PYTHONDONTWRITEBYTECODE": ""})  # fmt: skip
    (folder / _WHOLE).touch()


def make_installed(folder: Path, pinned: Path, wheel: Path, call: Callable[..., None]) -> None:
    """Make an environment: the packages of ``pinned``, and the wheel, which stays in it as ``dist/*.whl``.

    The files of ``pinned`` are hard links, which take no space. That is safe: pip replaces files, and never
    writes into one.
    """
    shutil.rmtree(folder, ignore_errors=True)
    own = shutil.ignore_patterns(_LOCK, _WHOLE)
    shutil.copytree(pinned, folder, symlinks=True, ignore=own, copy_function=os.link)
    for script in (folder / "bin").iterdir():
        if script.is_symlink() or not script.is_file():
            continue
        content = script.read_bytes()
        if os.fsencode(pinned) in content:
            mode = script.stat().st_mode
            script.unlink()  # so that the file of ``pinned`` stays unchanged
            script.write_bytes(content.replace(os.fsencode(pinned), os.fsencode(folder)))
            script.chmod(mode)
    (folder / "dist").mkdir()
    kept = shutil.move(wheel, folder / "dist")
    call(folder / "bin/python", "-m", "pip", "install", "-q", "--no-deps", "--no-index", kept)
    (folder / _WHOLE).touch()
