"""Writes the page from results.json and page.md.j2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pages

HERE = Path(__file__).resolve().parent


def make_files(results: dict[str, Any]) -> dict[str, str]:
    """Return the text of each file of the page by its name."""
    rows = list(results["kernels"].items())
    steps = [results["machine"], results["prepare"], *results["profiles"].values()]
    loads = [each["step"]["load"] for each in (*steps, *results["kernels"].values())]
    verdict = {True: "PASS", False: "FAIL"}
    text = pages.load_template(HERE).render(
        r=results, rows=rows, verdict=verdict, load={"least": min(loads), "most": max(loads)}
    )
    return {"README.md": text}
