"""A captured kernel with parameters, and its project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from captured_projects import copy_project
from programs import SOURCES

if TYPE_CHECKING:
    from pathlib import Path

    from stages import Stages

SOURCE = SOURCES / "evaluate/tiles.hip"


@pytest.fixture
def stages(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Stages:
    """Stages on a store that holds the capture, as @capture, and its source; ``project`` is its project."""
    return copy_project(SOURCE, "tiles", tmp_path_factory, tmp_path)
