"""Writes the page and its pictures from results.json. Every number on the page is computed here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pages import Row, draw_builds, draw_loops, draw_projects, draw_ratios, render

HERE = Path(__file__).resolve().parent


def write_page(results: dict[str, Any], folder: Path) -> None:
    """Write README.md and the pictures into a folder."""
    for name, text in make_files(results).items():
        (folder / name).write_text(text)


def make_files(results: dict[str, Any]) -> dict[str, str]:
    """Return the text of each file of the page by its name."""
    rows = [Row(kernel) for kernel in results["kernels"].values()]
    return {
        "README.md": render(results, rows, HERE),
        "ratio.svg": draw_ratios(rows),
        "build.svg": draw_builds(rows, "llama.cpp"),
        "loop.svg": draw_loops(rows),
        "project.svg": draw_projects(rows),
    }
