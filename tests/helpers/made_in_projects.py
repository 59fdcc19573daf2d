"""Programs of one unit, and make in their projects, with the store and the software GPU of a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stages import Stages


def build_unit(tree: Path, texts: Mapping[str, str]) -> Path:
    """Write files and a compilation database into a new folder, and return the program of ``unit.hip``."""
    tree.mkdir()
    for name, text in texts.items():
        (tree / name).write_text(text)
    words = ["hipcc", "--offload-arch=gfx90a"]
    entry = {"directory": str(tree), "file": "unit.hip", "arguments": [*words, "-c", "unit.hip"]}
    (tree / "compile_commands.json").write_text(json.dumps([entry]))
    subprocess.run([*words, "unit.hip", "-o", "app"], cwd=tree, check=True, capture_output=True)
    return tree / "app"


def make(stages: Stages, project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run make in a project, with our executables first on PATH."""
    beside = Path(sys.executable).parent
    path = f"{beside}:{stages.environment.get('PATH', os.environ['PATH'])}"
    return subprocess.run(
        ["make", "-C", project, *words],
        capture_output=True, text=True, check=False, env={**stages.environment, "PATH": path},
    )  # fmt: skip
