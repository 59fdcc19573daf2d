"""Changes constants, options and the grid in the text of a Triton project's ``reproducer.py``.

The script is read, never run, here. Only the values change: the user's edits around them stay.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NAME = "reproducer.py"
_TABLES = ("CONSTANTS", "OPTIONS")
_GRID = "GRID"


class ReproducerScript:
    """The script's text, and where its values are."""

    def __init__(self, text: str) -> None:
        """Raises UsageError if the script was changed too much."""
        self._data = text.encode()
        self._values: dict[str, ast.expr] = {}
        self._grid: ast.expr | None = None
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise UsageError(
                f"{NAME} cannot be parsed as Python: {error}", hint="correct it first"
            ) from error
        for node in tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as table) if name in _TABLES:
                    self._take(table)
                case ast.Assign(targets=[ast.Name(id="GRID")], value=value):
                    self._grid = value
        self._starts = [0]
        for line in self._data.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def _take(self, table: ast.Dict) -> None:
        for key, value in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                self._values.setdefault(key.value, value)

    def list_values(self) -> dict[str, object]:
        """Return the constants and options that are plain numbers, texts, true or false."""
        found: dict[str, object] = {}
        for name, node in self._values.items():
            if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
                found[name] = node.value
        return found

    def require(self, names: Iterable[str], *, grid: bool) -> None:
        """Raise UsageError if the script has no such constant or option, or no grid."""
        known = self.list_values()
        unknown = [name for name in names if name not in known]
        if unknown:
            raise UsageError(
                f"{unknown[0]} is neither a constant nor an option of {NAME}",
                hint="it has " + ", ".join(sorted(known)),
            )
        if grid and self._grid is None:
            raise UsageError(f"{NAME} sets no {_GRID}", hint="leave out launch.grid")

    def replace(self, values: Mapping[str, object], grid: Sequence[int] | None) -> str:
        """Return the text with other values. They were required before."""
        changes = [(self._values[name], repr(value)) for name, value in values.items()]
        if grid is not None and self._grid is not None:
            changes.append((self._grid, repr(tuple(grid))))
        data = self._data
        places = [(self._find(node), text) for node, text in changes]
        for (begin, end), text in sorted(places, reverse=True):
            data = data[:begin] + text.encode() + data[end:]
        return data.decode()

    def _find(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = self._starts[node.lineno - 1] + node.col_offset
        return begin, self._starts[node.end_lineno - 1] + node.end_col_offset
