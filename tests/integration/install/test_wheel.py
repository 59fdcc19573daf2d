"""The wheel that `make` built and installed here."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel() -> Path:
    (found,) = (Path(sys.prefix) / "dist").glob("*.whl")
    return found


def test_it_holds_no_bytecode(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "kerncap_stages/store/__init__.py" in names
    assert [name for name in names if name.endswith(".pyc")] == []
