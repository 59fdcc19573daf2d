"""The table, on a terminal and for docs/performance.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from __main__ import Result

_WIDE = 150  # narrower terminals get what a row means below the table
_STYLES = {"MISS": "bold red"}
_NUMBERS = (2, 3, 4, 5, 6, 8)
HEADINGS = ("row", "what / ceiling", "measured", "ceiling", "ratio", "of cpu", "bar", "", "others")


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def cells(result: Result) -> tuple[str, ...]:
    """One line: others is the number of cores that these kept busy meanwhile."""
    figure = result.figure
    if figure is None:
        what = f"{result.what}: {result.problem}"
        return (result.name, what, "none", "", "", "", result.bar, result.verdict, "")
    return (
        result.name,
        result.what + (f" ({figure.note})" if figure.note else ""),
        f"{_number(figure.value)} {figure.unit}",
        f"{_number(figure.ceiling)} {figure.unit}" if figure.ceiling is not None else "",
        _ratio(figure.ratio),
        _ratio(figure.cpu_ratio),
        result.bar,
        result.verdict,
        f"{result.neighbour_cores:.1f}",
    )


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def table(facts: Mapping[str, str], results: Sequence[Result]) -> None:
    """Print for a person."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:  # a file has room for all columns
        console.width = max(console.width, _WIDE)
    for name, value in facts.items():
        console.print(f"{name:12} {value}")
    wide = console.width >= _WIDE
    shown_columns = [place for place in range(len(HEADINGS)) if wide or place != 1]
    shown = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for place in shown_columns:
        shown.add_column(
            HEADINGS[place], justify="right" if place in _NUMBERS else "left", no_wrap=place != 1
        )
    for result in results:
        line = cells(result)
        shown.add_row(*(line[place] for place in shown_columns), style=_STYLES.get(result.verdict, ""))
    console.print(shown)
    for result in results:
        if result.problem:
            console.print(f"{result.name}: {result.problem}")
        elif not wide:
            console.print(f"{result.name}: {cells(result)[1]}", style="dim")


def markdown(facts: Mapping[str, str], results: Sequence[Result]) -> str:
    """The same as two tables of Markdown."""
    lines = ["| machine | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items()), ""]
    lines += [f"| {' | '.join(HEADINGS)} |", "|---|---|---:|---:|---:|---:|---|---:|"]
    lines += [f"| {' | '.join(cells(result))} |" for result in results]
    return "\n".join(lines)
