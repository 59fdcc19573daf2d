"""The page of a demo run: one HTML file that needs no other file.

The template escapes every text of a program, a kernel or a command. Pictures are inline SVG.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_MAP_WIDTH, _MAP_HEIGHT = 640, 28


@dataclass(frozen=True)
class Command:
    """A command line, its exit code and its outputs."""

    line: str
    exit_code: int
    out: str
    err: str

    @property
    def output(self) -> str:
        """Both outputs, as plain text."""
        return _COLOURS.sub("", self.err + self.out).strip("\n")


@dataclass
class Chapter:
    """One step of the demo, with its commands."""

    title: str
    commands: list[Command] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Attempt:
    """An edit of the kernel and its verdict. ``ratio``: its work divided by the captured kernel's work."""

    title: str
    validation: dict[str, Any]
    ratio: float | None
    ratio_label: str

    @property
    def passed(self) -> bool:
        """The verdict."""
        return bool(self.validation["passed"])

    @property
    def places(self) -> list[dict[str, Any]]:
        """Regions in which the variant's output differs from the captured kernel's."""
        return [_place(region) for region in self.validation["regions"] if not region["passed"]]


@dataclass
class Run:
    """A whole run of the demo."""

    device: str
    is_software: bool
    kernel: str = ""
    launch: str = ""
    chapters: list[Chapter] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    kernels: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0


def unified_diff(name: str, before: str, after: str) -> str:
    """Return an edit as a unified diff."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"a/{name}", f"b/{name}", lineterm=""
    )
    return "\n".join(lines)


def write_page(run: Run, path: Path) -> None:
    """Write the page. The file appears whole or not at all."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template("demo_page.html.j2").render(run=run, heat_map=heat_map)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def _place(region: dict[str, Any]) -> dict[str, Any]:
    worst = region["worst"] or {}
    return {
        "name": region["name"],
        "base": region["base_address"],
        "wrong": region["elements_out_of_bounds"],
        "elements": region["elements"],
        "unit": "bytes" if region["element_type"] == "bytes" else f"{region['element_type']} elements",
        "worst_address": worst.get("address"),
        "expected": worst.get("expected", "-"),
        "actual": worst.get("actual", "-"),
        "heat": region.get("heat", []),
    }


def heat_map(heat: list[int]) -> Markup:
    """Draw a strip from the region's first byte to its last; it is redder where more bytes differ."""
    most = max(heat, default=0)
    width = _MAP_WIDTH / max(1, len(heat))
    cells = [
        f'<rect x="{index * width:.2f}" width="{max(width, 1.0):.2f}" height="{_MAP_HEIGHT}" '
        f'fill="rgb({255 if value else 232},{round(200 * (1 - value / most)) if value else 232},'
        f'{round(180 * (1 - value / most)) if value else 232})"/>'
        for index, value in enumerate(heat)
    ]
    return Markup(  # noqa: S704 - it holds only numbers that are computed here
        f'<svg viewBox="0 0 {_MAP_WIDTH} {_MAP_HEIGHT}" role="img" aria-label="where outputs differ">'
        + "".join(cells)
        + "</svg>"
    )
