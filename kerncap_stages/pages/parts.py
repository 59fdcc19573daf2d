"""Pieces of a page: headings, lists of facts, tables. Every text passes through ``printable`` here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from kerncap_stages.text.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult

Fact = tuple[str, str | None]
# rich's own Padding would measure and lay out every table twice.
_INDENT = "  "
_NEVER_FOLDED = (">", "=")
_LEAST_FOLDED = 12  # characters of a column that folds
_BETWEEN = 3  # columns, by their border


def text(value: str, style: str = "") -> Text:
    """Wrap text from a manifest: no markup is read in it, and no control character is left in it."""
    return Text(printable(value), style=style)


def heading(title: str, note: str = "") -> Text:
    """Start a section."""
    return Text.assemble("\n", (printable(title), "bold"), ("  " + printable(note) if note else "", "dim"))


def facts(rows: Iterable[Fact]) -> Table:
    """List facts, name by value; one that is none is left out."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            grid.add_row(text(_INDENT + name), text(value))
    return grid


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Rows:
    """Show rows. A column that begins with `>` is aligned right, one with `=` is never folded.

    Others fold where the terminal is narrow: a name is never cut.
    """
    return Rows(columns, [[printable(cell) for cell in row] for row in rows])


class Rows:
    """A table; on a terminal too narrow to read it, a list of facts for each row instead."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Mark columns as for ``table``; every cell is printable."""
        self._marks = [column[:1] for column in columns]
        self._titles = [column.removeprefix(">").removeprefix("=") for column in columns]
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._least_width() <= options.max_width:
            yield self._table()
            return
        for row in self._rows:
            yield facts(
                (title, cell) for title, cell in zip(self._titles, row, strict=True) if title and cell
            )
            yield ""

    def _least_width(self) -> int:
        """Columns that fold can be read while they have room for a word or two."""
        width = len(_INDENT) - _BETWEEN
        for place, (mark, title) in enumerate(zip(self._marks, self._titles, strict=True)):
            longest = max((cell_len(row[place]) for row in self._rows), default=0)
            folds = mark not in _NEVER_FOLDED
            width += _BETWEEN + max(min(longest, _LEAST_FOLDED) if folds else longest, cell_len(title))
        return width

    def _table(self) -> Table:
        result = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="cyan")
        for place, (mark, title) in enumerate(zip(self._marks, self._titles, strict=True)):
            justify: JustifyMethod = "right" if mark == ">" else "left"
            header = Text(_INDENT * (place == 0) + title)
            result.add_column(header, justify=justify, no_wrap=mark in _NEVER_FOLDED, overflow="fold")
        for first, *others in self._rows:
            result.add_row(Text(_INDENT + first), *map(Text, others))
        return result


def note(line: str) -> Text:
    """Add a remark below a section."""
    return text(_INDENT + line, "dim")
