"""The page of the case study on llama.cpp says what the results beside it say."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs/case-studies/llama"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the module that writes the page. It is in no package."""
    monkeypatch.syspath_prepend(FOLDER)
    module = importlib.import_module("page")
    yield module
    for name in ("page", "plots"):
        sys.modules.pop(name, None)


def test_page_and_pictures_are_what_the_results_give(page: Any) -> None:
    """`make study ARGS=--page` writes them again."""
    files = page.make_files(json.loads((FOLDER / "results.json").read_text()))
    assert {path.name for path in FOLDER.glob("*.svg")} == {name for name in files if name.endswith(".svg")}
    assert {name: (FOLDER / name).read_text() for name in files} == files
