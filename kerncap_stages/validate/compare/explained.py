"""Says by how much wrong outputs differ, and which bounds would allow that, if it may be rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.validate.compare.bounds import FLOAT_TYPES, INTEGER_TYPES
from kerncap_stages.validate.compare.elements import find_dtype
from kerncap_stages.validate.compare.scaled_bounds import find_closeness, find_rounding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.validate.compare.elements import Difference

_BYTE_TYPES = ("int8", "uint8")
_MARGIN = 2.0  # of suggested bounds: other states differ by a little more


@dataclass(frozen=True)
class WrongOutput:
    """A part of an output with wrong elements.

    name: of the argument, for people. start_bytes: where the part begins in its region; offsets in
    ``difference`` count from the region's start. largest_rounding: by how much elements may differ if only
    the order of operations is another; 0 if none may differ. state: which values the run began from, if not
    the captured ones. is_fresh: relative bounds apply to the largest element.
    """

    name: str
    element_type: str | None
    start_bytes: int
    difference: Difference
    largest_rounding: float
    state: str
    is_fresh: bool

    @property
    def is_rounding(self) -> bool:
        """Whether rounding may explain all wrong elements."""
        difference = self.difference
        if self.element_type not in FLOAT_TYPES or not difference.is_finite:
            return False
        if find_rounding(self.element_type).is_exact:  # 8-bit floats: the next representable value
            return difference.max_ulp == 1
        return 0.0 < difference.max_absolute <= self.largest_rounding

    @property
    def badness(self) -> float:
        """How far it is from what rounding explains: above 1 it is further."""
        difference = self.difference
        if self.element_type is None:
            return 1.0
        if not difference.is_finite:
            return math.inf
        return difference.max_absolute / self.largest_rounding if self.largest_rounding else 2.0

    def find_relative_bound(self) -> float | None:
        """Return the relative bound that allows it; None if none does that is small enough."""
        near, relative = find_closeness(self.element_type)[0].rtol, find_rounding(self.element_type).rtol
        if near is None or relative is None:
            return None
        found = self.difference.max_relative
        if self.is_fresh:
            found = self.difference.max_absolute / self.largest_rounding * relative
        return found if found <= near else None

    def describe(self) -> str:
        """Describe the size of the difference, and the worst element."""
        found, worst = self.difference, self.difference.worst
        name = (self.name or "an output of no known argument") + (
            f", from {self.state}," if self.state else ""
        )
        if self.element_type is None or worst is None:
            return f"{name} in {found.failing:,} of {found.elements:,} bytes"
        place = (worst.offset_bytes - self.start_bytes) // find_dtype(self.element_type).itemsize
        sizes = f"by up to {found.max_absolute:.3g}"
        if self.element_type in FLOAT_TYPES:
            sizes += f" (relative {found.max_relative:.3g})"
        if not found.max_absolute:
            sizes = "in NaN or infinity"
        return f"{name} {sizes}; worst is element {place:,}, {worst.actual!r} instead of {worst.golden!r}"


def explain_wrong_outputs(wrong: Sequence[WrongOutput], *, has_strays: bool = False) -> str:
    """Say by how much the worst output differs, and whether bounds would allow all that is wrong.

    has_strays: the variant also writes where no bounds apply.
    """
    every = [each for each in wrong if not each.is_rounding] or wrong
    worst = max(every, key=lambda each: each.badness)
    if has_strays and worst.is_rounding:
        return f"{worst.describe()}: it may be rounding, but no tolerance allows writes elsewhere"
    return f"{worst.describe()}: {_suggest(wrong, worst)}"


def _suggest(wrong: Sequence[WrongOutput], worst: WrongOutput) -> str:
    if all(each.is_rounding for each in wrong):
        return f"it may be rounding; `{_choose_bounds(wrong)}` would allow it"
    difference = worst.difference
    if worst.element_type is None:
        return "their type is not known, so every byte must be the same (`--dtype` gives the type)"
    if worst.element_type in INTEGER_TYPES:
        if worst.element_type in _BYTE_TYPES and difference.max_absolute == 1:
            return "integers do not round; if they are rounded floats, `--tolerance 1` would allow it"
        return "integers do not round, so no tolerance fits"
    if not difference.is_finite:
        return "no tolerance allows NaN or infinity in place of a number, or the reverse"
    return "this is more than rounding, so no tolerance fits"


def _choose_bounds(wrong: Sequence[WrongOutput]) -> str:
    if not all(each.largest_rounding for each in wrong):
        return "--ulp 1" if not any(each.largest_rounding for each in wrong) else "--ulp 1, with --rtol"
    relative = [each.find_relative_bound() for each in wrong]
    known = [each for each in relative if each is not None]
    if len(known) == len(relative):
        return f"--rtol {_round_up(max(known))}"
    return f"--tolerance {_round_up(max(each.difference.max_absolute for each in wrong))}"


def _round_up(bound: float) -> str:
    """Write the next power of ten that is a margin larger."""
    return f"1e{math.ceil(math.log10(_MARGIN * bound))}"
