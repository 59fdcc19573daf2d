"""The table, on a terminal and for docs/performance.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from __main__ import Result

HEADINGS = ("row", "what / ceiling", "measured", "ceiling", "ratio", "bar", "", "neighbours")


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def cells(result: Result) -> tuple[str, ...]:
    """One line: neighbours is the number of cores that others kept busy meanwhile."""
    figure = result.figure
    if figure is None:
        return (result.name, f"{result.what}: {result.problem}", "", "", "", result.bar, result.verdict, "")
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
    shown = Table(*HEADINGS, pad_edge=False)
    for column in (2, 3, 4, 5, 7):
        shown.columns[column].justify = "right"
        shown.columns[column].no_wrap = True
    styles = {"PASS": "green", "MISS": "bold red"}
    for result in results:
        shown.add_row(
            *cells(result), style=styles.get(result.verdict, "") if result.verdict == "MISS" else ""
        )
    console.print(shown)


def markdown(facts: Mapping[str, str], results: Sequence[Result]) -> str:
    """The same as two tables of Markdown."""
    lines = ["| machine | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items()), ""]
    lines += [f"| {' | '.join(HEADINGS)} |", "|---|---|---:|---:|---:|---:|---|---:|"]
    lines += [f"| {' | '.join(cells(result))} |" for result in results]
    return "\n".join(lines)
