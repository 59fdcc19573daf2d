"""Writes the page and its pictures from results.json. Every number on the page is computed in ../common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pages

HERE = Path(__file__).resolve().parent
UNIT_GOAL = 3  # for compiling a unit alone: these have few kernels


def write_page(results: dict[str, Any], folder: Path) -> None:
    """Write README.md and the pictures into a folder."""
    for name, text in make_files(results).items():
        (folder / name).write_text(text)


def make_files(results: dict[str, Any]) -> dict[str, str]:
    """Return the text of each file of the page by its name."""
    return pages.make_files(results, HERE, "the programs", UNIT_GOAL)
