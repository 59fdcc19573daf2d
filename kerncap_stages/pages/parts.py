"""Pieces of a page: headings, lists of facts, tables. Every text passes through ``printable`` here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from kerncap_stages.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import JustifyMethod

Fact = tuple[str, str | None]
# rich's own Padding would measure and lay out every table twice.
_INDENT = "  "


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


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Show rows. A column that begins with `>` is aligned right, one with `=` is never folded.

    Others fold where the terminal is narrow: a name is never cut.
    """
    result = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="cyan")
    for index, column in enumerate(columns):
        kind = column[:1]
        title = _INDENT * (index == 0) + column.removeprefix(">").removeprefix("=")
        justify: JustifyMethod = "right" if kind == ">" else "left"
        result.add_column(text(title), justify=justify, no_wrap=kind in (">", "="), overflow="fold")
    for first, *others in rows:
        result.add_row(text(_INDENT + first), *map(text, others))
    return result


def note(line: str) -> Text:
    """Add a remark below a section."""
    return text(_INDENT + line, "dim")
