"""The table, on a terminal and for docs/performance.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from __main__ import Result

_WIDE = 150  # narrower terminals get what a row means below the table
_STYLES = {"MISS": "bold red"}
HEADINGS = ("row", "what / ceiling", "measured", "ceiling", "ratio", "bar", "", "neighbours")


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def cells(result: Result) -> tuple[str, ...]:
    """One line: neighbours is the number of cores that others kept busy meanwhile."""
    figure = result.figure
    if figure is None:
        return (
            result.name,
            f"{result.what}: {result.problem}",
            "none",
            "",
            "",
            result.bar,
            result.verdict,
            "",
        )
    what = result.what + (f" ({figure.note})" if figure.note else "")
    ceiling = f"{_number(figure.ceiling)} {figure.unit}" if figure.ceiling is not None else ""
    ratio = f"{figure.ratio:.2f}" if figure.ratio is not None else ""
    measured = f"{_number(figure.value)} {figure.unit}"
    return (
        result.name,
        what,
        measured,
        ceiling,
        ratio,
        result.bar,
        result.verdict,
        f"{result.neighbour_cores:.1f}",
    )


def table(facts: Mapping[str, str], results: Sequence[Result]) -> None:
    """Print for a person."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    for name, value in facts.items():
        console.print(f"{name:12} {value}")
    wide = console.width >= _WIDE
    shown_columns = [place for place in range(len(HEADINGS)) if wide or place != 1]
    shown = Table(pad_edge=False)
    for place in shown_columns:
        shown.add_column(
            HEADINGS[place], justify="right" if place in (2, 3, 4, 5, 7) else "left", no_wrap=place != 1
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
