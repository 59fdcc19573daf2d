"""Writes the page and its pictures from results.json. Every number on the page is computed here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pages import Row, draw_builds, draw_loops, draw_projects, draw_ratios, render, size
from plots import Bar, draw_bars

HERE = Path(__file__).resolve().parent


def make_files(results: dict[str, Any]) -> dict[str, str]:
    """Return the text of each file of the page by its name."""
    rows = [Row(kernel) for kernel in results["kernels"].values()]
    layers = Layers(results["layers"])
    return {
        "README.md": render(results, rows, HERE, layers=layers, with_tests=with_tests),
        "ratio.svg": draw_ratios(rows),
        "build.svg": draw_builds(rows, "llama.cpp"),
        "loop.svg": draw_loops(rows),
        "project.svg": draw_projects(rows),
        "sizes.svg": draw_sizes(layers),
    }


def with_tests(row: Row, results: dict[str, Any]) -> float:
    """Return the loop in llama.cpp's build if the operator's own tests are run instead of the program."""
    test = results["tests"][row.kernel["operator"]]
    return float(row.build["built"]["cpu_s"] + test["took"]["cpu_s"])


class Layers:
    """Ten captures of one run against one."""

    def __init__(self, layers: dict[str, Any]) -> None:
        self.one = layers["1"]
        self.ten = next(found for key, found in layers.items() if key not in ("1", "kernel", "step"))

    @property
    def factor(self) -> float:
        """Return how many times the store of one capture that of ten needs."""
        return float(self.ten["stored_bytes"] / self.one["stored_bytes"])


def draw_sizes(layers: Layers) -> str:
    """Draw the sizes of one capture, and of ten of one run."""
    return draw_bars(
        "sizes of one capture and of ten",
        "MiB",
        ("bytes",),
        [
            Bar(f"{label}, {kind}", (found[key] / 2**20,), size(found[key]))
            for label, found in (("one", layers.one), ("ten", layers.ten))
            for kind, key in (("raw", "raw_bytes"), ("stored", "stored_bytes"))
        ],
    )
