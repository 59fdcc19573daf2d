"""Where the commands of a checkout run: pinned packages, and on top of them the wheel.

A wheel of other content makes an environment of its own, so nothing is replaced under a running command.
One that no command uses any more is removed with the next build.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import venv
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_LOCK = "in-use"
_WHOLE = "whole"


def is_whole(folder: Path) -> bool:
    """Whether the environment was made to its end."""
    return (folder / _WHOLE).exists()


def use(folder: Path) -> None:
    """Keep an environment until this process ends."""
    lock = os.open(folder / _LOCK, os.O_RDONLY | os.O_CREAT, 0o600)  # closed by the end of the process
    fcntl.flock(lock, fcntl.LOCK_SH)


def remove_unused(folders: Iterable[Path]) -> None:
    """Remove the environments that no process uses. The caller sees to it that none begins to meanwhile."""
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
    folder: Path, constraints: Path, requirements: Iterable[str], call: Callable[..., None]
) -> None:
    """The packages that building, testing and the stages need, at the versions of ``constraints``."""
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    # Their bytecode is compiled now, once, not at the first import of each test run.
    call(folder / "bin/pip", "install", "-q", "-c", constraints, *requirements,
         variables={"PYTHONDONTWRITEBYTECODE": ""})  # fmt: skip
    (folder / _WHOLE).touch()


def make_installed(folder: Path, pinned: Path, wheel: Path, call: Callable[..., None]) -> None:
    """An environment that holds the wheel, and shows the packages and programs of ``pinned``.

    The wheel is kept in it as ``dist/*.whl``. pip stays that of ``pinned``: all see what somebody adds.
    """
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "pinned.pth").write_text(f"{pinned / packages.relative_to(folder)}\n")
    for program in (pinned / "bin").iterdir():
        if program.is_file() and not program.name.startswith("pip"):
            _take(program, pinned, folder)
    (folder / "dist").mkdir()
    kept = shutil.move(wheel, folder / "dist")
    pip = (pinned / "bin/pip", "--python", folder / "bin/python", "install", "-q")
    call(*pip, "--no-deps", "--no-index", kept)
    (folder / _WHOLE).touch()


def _take(program: Path, pinned: Path, folder: Path) -> None:
    """Show a program of the pinned packages; a script runs under the Python of ``folder``."""
    shown, content = folder / "bin" / program.name, program.read_bytes()
    if shown.exists():  # Python itself, and what comes with every environment
        return
    own = content.replace(os.fsencode(pinned / "bin/python"), os.fsencode(folder / "bin/python"))
    if own == content:
        shown.symlink_to(program)
    else:
        shown.write_bytes(own)
        shown.chmod(0o755)
