"""make in a generated project, with the store and the software GPU of a test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stages import Stages


def make(stages: Stages, project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run make in a project, with our executables first on PATH."""
    beside = Path(sys.executable).parent
    path = f"{beside}:{stages.environment.get('PATH', os.environ['PATH'])}"
    return subprocess.run(
        ["make", "-C", project, *words],
        capture_output=True, text=True, check=False, env={**stages.environment, "PATH": path},
    )  # fmt: skip
