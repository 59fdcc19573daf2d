"""Writes the page and its pictures from results.json. Every number on the page is computed in ../common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pages

HERE = Path(__file__).resolve().parent


def make_files(results: dict[str, Any]) -> dict[str, str]:
    """Return the text of each file of the page by its name."""
    return pages.make_files(results, HERE, "llama.cpp")
