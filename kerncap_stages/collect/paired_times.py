"""Statistics of a program's times with and without a variant, taken by turns."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WANTED = 0.95


@dataclass(frozen=True)
class PairedTimes:
    """Wall times of runs by turns: the n-th with the captured kernel and the n-th with the variant."""

    captured_ns: tuple[int, ...]
    variant_ns: tuple[int, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """The time with the variant divided by that with the captured kernel, of each pair."""
        return tuple(new / old for old, new in zip(self.captured_ns, self.variant_ns, strict=True) if old > 0)

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return median(self.ratios)

    @property
    def interval(self) -> tuple[float, float, float]:
        """The confidence interval of the median ratio: its ends, and its confidence."""
        return find_interval(self.ratios)


def find_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the shortest confidence interval of the median of at least 95 %: low, high, confidence.

    Its ends are values: it assumes nothing about how values are distributed, only that they do not depend on
    each other. How many values lie below the median is then distributed as tosses of a coin. Fewer than six
    values have no interval of 95 %: it then reaches from the lowest to the highest, with less confidence.
    """
    ordered = sorted(values)
    number = len(ordered)
    outside = 2 * 0.5**number  # that all values lie on one side
    ends = 0
    while ends + 1 < (number + 1) // 2:
        more = outside + 2 * comb(number, ends + 1) * 0.5**number
        if 1 - more < WANTED:
            break
        outside, ends = more, ends + 1
    return ordered[ends], ordered[number - 1 - ends], max(0.0, 1 - outside)
