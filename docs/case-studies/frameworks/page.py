"""Writes the page from results.json and page.md.j2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pages

HERE = Path(__file__).resolve().parent


def write_page(results: dict[str, Any], folder: Path) -> None:
    """Write README.md into a folder."""
    for name, text in make_files(results).items():
        (folder / name).write_text(text)


def make_files(results: dict[str, Any]) -> dict[str, str]:
    """Return the text of each file of the page by its name."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([HERE, pages.HERE]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Markdown, of numbers and names of this repository's own
    )
    environment.filters.update(seconds=pages.seconds, size=pages.size, code=pages.code)
    rows = list(results["kernels"].items())
    steps = [results["machine"], results["prepare"], *results["profiles"].values()]
    loads = [each["step"]["load"] for each in (*steps, *results["kernels"].values())]
    verdict = {True: "PASS", False: "FAIL"}
    text = environment.get_template("page.md.j2").render(
        r=results, rows=rows, verdict=verdict, load={"least": min(loads), "most": max(loads)}
    )
    return {"README.md": text}
