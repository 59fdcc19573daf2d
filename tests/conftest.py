"""What every test can use: golden files, compared byte for byte, rewritten by `make golden`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="make golden files match")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, bytes], None]:
    """``golden(path, content)``: the committed file at ``path`` holds exactly ``content``."""

    def compare(path: Path, content: bytes) -> None:
        if request.config.getoption("--rewrite-golden"):
            path.write_bytes(content)
        stored = path.read_bytes() if path.exists() else None
        assert stored == content, f"{path} differs: look at it, then `make golden`"

    return compare
