"""What the tests of one run share, in whichever of pytest-xdist's workers they are."""

from __future__ import annotations

import fcntl
import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def folder_of_run(factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this run have, and no other run."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(folder: Path, make: Callable[[Path], str]) -> str:
    """What ``make(folder)`` returned to the first that asked; the folder was empty, and stays for all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = folder.with_name(f"{folder.name}.answer")
        if not answer.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of one that failed
            folder.mkdir()
            answer.write_text(make(folder))
        return answer.read_text()
