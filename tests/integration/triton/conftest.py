"""PyPI's Triton on the software GPU, without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from triton_package import install_triton, make_environment

if TYPE_CHECKING:
    from pathlib import Path

    from stages import Stages


@pytest.fixture(scope="session")
def triton() -> Path:
    """The folder that the package is in."""
    return install_triton()


@pytest.fixture
def with_triton(stages: Stages, triton: Path, tmp_path: Path) -> Stages:
    """The stages; their programs find Triton."""
    stages.variables |= make_environment(triton, tmp_path / "compiled")
    return stages
