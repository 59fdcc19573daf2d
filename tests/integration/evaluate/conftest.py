"""A captured kernel, its project, and variants of it that behave in many ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from captured_projects import TARGET, copy_project
from programs import SOURCES, Build, Program, compile_once

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stages import Stages

SOURCE = SOURCES / "evaluate/sums.hip"
WAYS = ("right", "faster", "half", "null", "for_ever", "keeps_results", "leaks", "signature", "large")


@pytest.fixture(scope="session")
def way() -> Callable[[str], Path]:
    """The code object of the kernel that behaves in one way, by its name."""

    def build(name: str) -> Path:
        defines = (f"WAY={WAYS.index(name)}",)
        return compile_once(Build(Program(SOURCE), TARGET, "O3", defines=defines, device_only=True))

    return build


@pytest.fixture
def stages(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Stages:
    """Stages on a store that holds the capture, as @capture, and its source; ``project`` is its project."""
    return copy_project(SOURCE, "sums", tmp_path_factory, tmp_path)
