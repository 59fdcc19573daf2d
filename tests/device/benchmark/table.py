"""The table: each figure beside what it is compared with, their ratio, and the bar."""

from __future__ import annotations

import random
import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MARKS = {True: "yes", False: "NO", None: "-"}
RESAMPLES = 2000


@dataclass(frozen=True)
class Row:
    """``ratio``: of ``measured`` to ``beside``. ``holds`` None: nothing is asked of it."""

    what: str
    measured: str
    beside: str
    ratio: float | None
    bar: str
    holds: bool | None
    numbers: dict[str, object] = field(default_factory=dict)

    @property
    def cells(self) -> tuple[str, ...]:
        """As they are printed."""
        ratio = "" if self.ratio is None else f"{self.ratio:.3f}" if self.ratio < 20 else f"{self.ratio:,.0f}"
        return self.what, self.measured, self.beside, ratio, self.bar, MARKS[self.holds]


class Table:
    """Prints each row as soon as it is known."""

    HEAD = ("what", "measured", "beside", "ratio", "bar", "holds")
    WIDTHS = (50, 60, 44, 7, 26, 5)

    def __init__(self, *, markdown: bool) -> None:
        self.rows: list[Row] = []
        self._markdown = markdown

    def begin(self) -> None:
        """Print the head."""
        self._print(self.HEAD)
        if self._markdown:
            print("|---|---|---|---:|---|---|", flush=True)

    def add(
        self,
        what: str,
        measured: str,
        beside: str,
        ratio: float | None,
        bar: str = "",
        *,
        holds: bool | None = None,
        **numbers: object,
    ) -> None:
        """Add a row; ``numbers`` go into the JSON file."""
        self.rows.append(Row(what, measured, beside, ratio, bar, holds, numbers))
        self._print(self.rows[-1].cells)

    def as_json(self) -> list[dict[str, object]]:
        """All rows."""
        return [asdict(row) for row in self.rows]

    def _print(self, cells: Sequence[str]) -> None:
        if self._markdown:
            print("| " + " | ".join(cells) + " |", flush=True)
        else:
            print(
                "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, self.WIDTHS, strict=True)),
                flush=True,
            )


def median(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def each(values: Sequence[float], digits: int = 2) -> str:
    """Every round's figure."""
    return ", ".join(f"{value:.{digits}f}" for value in values)


def ratios(values: Sequence[float], ceilings: Sequence[float]) -> list[float]:
    """Round by round: both saw the same machine."""
    return [value / ceiling for value, ceiling in zip(values, ceilings, strict=True)]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The three of them."""
    first, second, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, second, third


def confidence(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The 95 % confidence interval of the median of all: groups, then values are resampled, always alike."""
    dice = random.Random(1)

    def resampled() -> float:
        taken = dice.choices(groups, k=len(groups))
        return median([value for group in taken for value in dice.choices(group, k=len(group))])

    found = sorted(resampled() for _ in range(RESAMPLES))
    return found[int(RESAMPLES * 0.025)], found[int(RESAMPLES * 0.975)]
