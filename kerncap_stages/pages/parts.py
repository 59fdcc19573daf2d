"""Pieces of a page: headings, lists of facts, tables. Every text passes through ``printable`` here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kerncap_stages.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

Fact = tuple[str, str | None]


def text(value: str, style: str = "") -> Text:
    """Wrap text from a manifest: no markup is read in it, and no control character is left in it."""
    return Text(printable(value), style=style)


def heading(title: str, note: str = "") -> Text:
    """Start a section."""
    return Text.assemble("\n", (printable(title), "bold"), ("  " + printable(note) if note else "", "dim"))


def facts(rows: Iterable[Fact]) -> Padding:
    """List facts, name by value; one that is none is left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            grid.add_row(text(name), text(value))
    return Padding(grid, (0, 0, 0, 2), expand=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Padding:
    """Show rows; a column that begins with `>` is aligned right, and names fold but never vanish."""
    result = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="cyan")
    for column in columns:
        right = column.startswith(">")
        result.add_column(
            text(column.removeprefix(">")),
            justify="right" if right else "left",
            overflow="fold",
            no_wrap=right,
        )
    for row in rows:
        result.add_row(*(text(cell) for cell in row))
    return Padding(result, (0, 0, 0, 2), expand=False)


def note(line: str) -> RenderableType:
    """Add a remark below a section."""
    return Padding(text(line, "dim"), (0, 0, 0, 2), expand=False)
