"""Reads docs/compatibility.md: its tables, and the types that it gives to fields of JSON."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/compatibility.md"
JSON_TYPES = {"text": str, "number": (int, float), "boolean": bool, "list": list, "object": dict}


def rows(heading: str) -> list[list[str]]:
    """Cells of every table below a heading of the page, without their heads."""
    section = PAGE.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    cells = [
        [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    assert cells
    return cells


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def typed_fields(cell: str) -> list[tuple[str, str]]:
    """Each field of a cell, as a path into the JSON, with the word for its type."""
    groups = re.findall(r"(\w+)((?: `[^`]+`)+)", cell)
    return [(field, word) for word, fields in groups for field in code(fields)]


def values_at(value: object, path: str) -> list[object]:
    """What a path like ``timing.unit`` or ``regions[].base`` leads to; at least one value."""
    found = [value]
    for part in path.split("."):
        name = part.removesuffix("[]")
        found = [each[name] for each in found] if name else found
        if name != part:
            found = [item for each in found for item in each]
    assert found, path
    return found


def assert_types(value: object, cell: str) -> None:
    for path, word in typed_fields(cell):
        for each in values_at(value, path):
            assert isinstance(each, JSON_TYPES[word]), (path, each)
            assert word == "boolean" or not isinstance(each, bool), (path, each)
