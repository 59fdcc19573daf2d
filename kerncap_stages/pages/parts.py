"""Parts of a page: headings, lists of facts, tables. They pass every text through ``make_printable``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult

Fact = tuple[str, str | None]
# rich's own Padding would measure and lay out every table twice.
_INDENT = "  "
_NEVER_FOLDED = (">", "=")
_MIN_FOLDED = 12  # characters of a column that folds
_BETWEEN = 3  # characters between two columns


def wrap_text(value: str, style: str = "") -> Text:
    """Wrap text from a manifest: markup in it has no effect, and control characters are replaced."""
    return Text(make_printable(value), style=style)


def make_heading(title: str, note: str = "") -> Text:
    """Start a section."""
    return Text.assemble(
        "\n", (make_printable(title), "bold"), ("  " + make_printable(note) if note else "", "dim")
    )


def list_facts(rows: Iterable[Fact]) -> Table:
    """List facts as name and value. A fact without a value is left out."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            grid.add_row(wrap_text(_INDENT + name), wrap_text(value))
    return grid


def make_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Rows:
    """Show rows. A title that begins with `>` aligns its column right; neither it nor one with `=` is folded.

    Other columns fold if the terminal is narrow. A name is never cut.
    """
    return Rows(columns, [[make_printable(cell) for cell in row] for row in rows])


class Rows:
    """A table. On a terminal that is too narrow for it, a list of facts for each row."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """columns: titles as for ``make_table``. rows: printable cells."""
        self._marks = [column[:1] for column in columns]
        self._titles = [column.removeprefix(">").removeprefix("=") for column in columns]
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._find_min_width() <= options.max_width:
            yield self._make_table()
            return
        for row in self._rows:
            yield list_facts(
                (title, cell) for title, cell in zip(self._titles, row, strict=True) if title and cell
            )
            yield ""

    def _find_min_width(self) -> int:
        """Find the width below which the table cannot be read: a column that folds needs a word or two."""
        width = len(_INDENT) - _BETWEEN
        for place, (mark, title) in enumerate(zip(self._marks, self._titles, strict=True)):
            longest = max((cell_len(row[place]) for row in self._rows), default=0)
            folds = mark not in _NEVER_FOLDED
            width += _BETWEEN + max(min(longest, _MIN_FOLDED) if folds else longest, cell_len(title))
        return width

    def _make_table(self) -> Table:
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
    return wrap_text(_INDENT + line, "dim")
