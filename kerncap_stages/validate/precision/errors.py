"""Compares the errors of two kernels against true values.

Errors are compared between elements of like magnitude, so that the large elements of an output do not hide
the small ones. In each such group the root mean square of the variant's errors, its largest error and its
median error may each be a factor of the captured kernel's. No error counts as less than that of the true
value, rounded to the type of the output: half a unit in the last place (ULP). Few errors say little about a
kernel's error: the factor of root mean squares is 2 where about 50 errors count, and larger where fewer do.
If a few errors are much larger than all others, only these count, and the median shows the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from kerncap_stages.validate.compare.elements import find_dtype

# At least so many elements are a group, if the output has them.
_GROUP = 64
# How many errors must count for each factor. If the errors of two kernels have one normal distribution, a
# single error is 512 times another one in 0.12 % of all cases; with many, a factor is practically never met.
_FACTORS = ((32.0, 2.0), (8.0, 4.0), (4.0, 16.0), (2.0, 64.0), (0.0, 512.0))
# How much larger the factor of the largest error is: it varies more.
_MAX_FACTOR = 2.0
# The factor of medians, by how many elements there are.
_MEDIAN_FACTORS = ((48, 4.0), (12, 16.0))
# Kernels may flush subnormal numbers of these types to zero.
_FLUSHED_BELOW = 1e-30
_NO_EXPONENT = -(1 << 20)

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Size:
    """The size of a kernel's errors: the largest, the root mean square, the median."""

    max_absolute: float
    rms: float
    median: float


@dataclass(frozen=True)
class Comparison:
    """One number of each kernel's errors. ``factor``: how many times ``captured`` is allowed.

    least: what counts if the captured kernel's number is smaller.
    """

    name: str
    variant: float
    captured: float
    least: float
    factor: float

    @property
    def share(self) -> float:
        """The variant's number in parts of what is allowed."""
        return self.variant / (self.factor * max(self.captured, self.least))


@dataclass(frozen=True)
class Group:
    """Elements of like magnitude, from ``low`` to ``high``. ``factor``: of root mean squares.

    ulp: the unit in the last place, as a root mean square over the elements.
    """

    low: float
    high: float
    elements: int
    captured: Size
    variant: Size
    ulp: float
    factor: float
    comparisons: tuple[Comparison, ...]

    @property
    def worst(self) -> Comparison:
        """The comparison by which the variant is the worst."""
        return max(self.comparisons, key=lambda each: each.share)

    @property
    def share(self) -> float:
        """The variant's error in parts of what is allowed; above 1 it fails."""
        return self.worst.share


@dataclass(frozen=True)
class Errors:
    """The errors of two kernels. ``unusable``: elements of which the captured kernel made no finite number.

    worst: the place of the variant's largest error. ulps: the captured kernel's root mean square in ULP.
    furthest: the place of the captured kernel's largest error. invalid: the first place at which it has a
    finite number and the reference has none.
    """

    elements: int
    unusable: int
    captured: Size
    variant: Size
    groups: tuple[Group, ...]
    worst: int
    furthest: int
    largest: float
    ulps: float
    invalid: int | None = None

    @property
    def decisive(self) -> Group:
        """The group in which the variant is the worst."""
        return max(self.groups, key=lambda group: group.share)

    @property
    def passed(self) -> bool:
        """Whether the variant's errors are no larger than what is allowed."""
        return all(group.share <= 1.0 for group in self.groups)


def measure_errors(
    true: Floats, captured: npt.NDArray[Any], variant: npt.NDArray[Any], element_type: str
) -> Errors | None:
    """Measure the errors of two outputs, flat arrays of one size; None if no element can be judged.

    true: fp64 or longdouble. captured, variant: of ``element_type``.
    """
    with np.errstate(all="ignore"):
        left, right = captured.astype(true.dtype), variant.astype(true.dtype)
        usable = np.isfinite(left)
        wrong = np.flatnonzero(usable & ~np.isfinite(true))
        usable &= np.isfinite(true)
        if not usable.any() and not wrong.size:
            return None
        places = np.flatnonzero(usable)
        true, left, right = true[usable], left[usable], right[usable]
        of_captured = np.abs(left - true)
        of_variant = np.where(np.isfinite(right), np.abs(right - true), np.inf).astype(true.dtype)
        ulps = _measure_ulps(true, element_type)
        groups = [
            _make_group(true[each], of_captured[each], of_variant[each], ulps[each])
            for each in _cut_groups(true)
        ]
    return Errors(
        elements=int(places.size),
        unusable=int(usable.size - places.size),
        captured=_measure_size(of_captured),
        variant=_measure_size(of_variant),
        groups=tuple(groups),
        worst=int(places[np.argmax(of_variant)]) if places.size else 0,
        furthest=int(places[np.argmax(of_captured)]) if places.size else 0,
        largest=float(np.abs(true).max(initial=0.0)),
        ulps=_measure_size(of_captured / ulps).rms,
        invalid=int(wrong[0]) if wrong.size else None,
    )


def _measure_ulps(true: Floats, element_type: str) -> Floats:
    """Return the unit in the last place of each true value, in the type of the output."""
    limits: Any = ml_dtypes.finfo(find_dtype(element_type))  # type: ignore[no-untyped-call]
    smallest = float(limits.smallest_normal)
    if smallest >= _FLUSHED_BELOW:
        smallest = float(limits.smallest_subnormal)
    fraction, exponent = np.frexp(np.abs(true))
    of_power = np.ldexp(np.where(fraction == 0, 0.0, 1.0).astype(true.dtype), exponent - 1)
    ulps: Floats = np.maximum(of_power * float(limits.eps), smallest)
    return ulps


def _cut_groups(true: Floats) -> list[npt.NDArray[np.int64]]:
    """Return the places of the elements of each group, the largest elements first."""
    if true.size == 0:
        return []
    fraction, exponent = np.frexp(true)
    exponents = np.where(fraction == 0, _NO_EXPONENT, exponent)
    order = np.argsort(-exponents, kind="stable")
    _, starts = np.unique(-exponents[order], return_index=True)
    cuts: list[int] = []
    for start in starts[1:]:
        if start - (cuts[-1] if cuts else 0) >= _GROUP:
            cuts.append(int(start))
    if cuts and true.size - cuts[-1] < _GROUP:
        cuts.pop()
    return np.split(order, cuts)


def _make_group(true: Floats, captured: Floats, variant: Floats, ulps: Floats) -> Group:
    ulp = _measure_size(ulps)
    left, right = _measure_size(captured), _measure_size(variant)
    factor = _choose_factor(np.maximum(captured, ulps / 2))
    comparisons = [
        Comparison("RMS", right.rms, left.rms, ulp.rms / 2, factor),
        Comparison(
            "largest", right.max_absolute, left.max_absolute, ulp.max_absolute / 2, _MAX_FACTOR * factor
        ),
    ]
    of_median = next((each for count, each in _MEDIAN_FACTORS if true.size >= count), None)
    if of_median is not None:
        comparisons.append(Comparison("median", right.median, left.median, ulp.median / 2, of_median))
    magnitudes = np.abs(true)
    return Group(
        low=float(magnitudes.min()),
        high=float(magnitudes.max()),
        elements=int(true.size),
        captured=left,
        variant=right,
        ulp=ulp.rms,
        factor=factor,
        comparisons=tuple(comparisons),
    )


def _choose_factor(errors: Floats) -> float:
    """Choose the factor by the number of errors that count: if a few are much larger, only those do.

    That number is 1 if one error is much larger than all others, and two thirds of the errors if they have a
    normal distribution.
    """
    scaled = (errors / errors.max()).astype(np.float64) ** 2
    counting = 2.0 * float(scaled.sum()) ** 2 / float((scaled**2).sum()) - 1.0
    return next(factor for count, factor in _FACTORS if counting >= count)


def _measure_size(errors: Floats) -> Size:
    largest = float(errors.max(initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return Size(largest, largest, float(np.median(errors)) if errors.size else 0.0)
    rms = largest * float(np.sqrt(np.mean(np.square(errors / largest))))
    return Size(largest, rms, float(np.median(errors)))
