"""What integration tests share: the stages on a store and in a folder of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from stages import Stages

from kerncap_stages.store import Store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def stages(tmp_path: Path) -> Stages:
    """The installed executables, with nothing in their store."""
    folder = tmp_path / "work"
    folder.mkdir()
    Store.open(tmp_path / "store")
    return Stages(store=tmp_path / "store", folder=folder)
