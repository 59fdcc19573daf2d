"""Comparing what a kernel wrote with what it should have written, byte by byte or by element type.

A numeric comparison accepts an element when it meets any bound that was given:
``|actual - golden| <= atol + rtol * |golden|``, or at most ``ulp`` representable values apart. Two NaNs
agree, as do infinities of one sign. Without bounds only equal bytes agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from kerncap_stages.bounds import ELEMENT_TYPES, FLOAT_TYPES, INTEGER_TYPES, ML_TYPES, Bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

__all__ = [
    "ELEMENT_TYPES",
    "FLOAT_TYPES",
    "INTEGER_TYPES",
    "Bounds",
    "Difference",
    "compare_bytes",
    "compare_elements",
    "equal_integers",
    "merge",
    "numpy_dtype",
    "within_bounds",
]
# Elements handled at a time: bounds the memory of a comparison to tens of MiB whatever the region's size.
_BATCH_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class Difference:
    """What a comparison of ``elements`` elements found; offsets count from the start of what was compared."""

    elements: int
    differing: int  # not equal byte for byte
    failing: int  # beyond the bounds
    nan_actual: int
    nan_golden: int
    infinite_actual: int
    infinite_golden: int
    max_absolute: float
    max_relative: float
    max_ulp: int
    worst_offset_bytes: int | None
    worst_actual: float | None
    worst_golden: float | None

    @property
    def passed(self) -> bool:
        """Whether every element is within the bounds."""
        return self.failing == 0


@cache
def numpy_dtype(element_type: str) -> np.dtype[Any]:
    """The numpy type of an element type, e.g. of ``bf16``."""
    if element_type in ML_TYPES:
        import ml_dtypes

        scalar: type[Any] = getattr(ml_dtypes, ML_TYPES[element_type])
        return np.dtype(scalar)
    return np.dtype(element_type.replace("fp", "float"))


def compare_bytes(actual: Bytes, golden: Bytes) -> npt.NDArray[np.int64]:
    """Offsets of the bytes that differ, int64[n], ascending."""
    _same_size(actual, golden)
    return np.flatnonzero(actual != golden).astype(np.int64)


def compare_elements(actual: Bytes, golden: Bytes, element_type: str, bounds: Bounds) -> Difference:
    """Compare two buffers of the same element type.

    actual, golden: uint8[size_bytes], C-contiguous; trailing bytes that do not fill an element must be equal.
    Raises ValueError if the sizes differ.
    """
    _same_size(actual, golden)
    element = numpy_dtype(element_type)
    count = actual.size // element.itemsize
    parts = [
        _compare_batch(
            actual, golden, element, element_type, bounds, start, min(start + _BATCH_ELEMENTS, count)
        )
        for start in range(0, count, _BATCH_ELEMENTS)
    ]
    tail = int(np.count_nonzero(actual[count * element.itemsize :] != golden[count * element.itemsize :]))
    whole = merge(parts)
    return replace(whole, differing=whole.differing + tail, failing=whole.failing + tail)


def within_bounds(actual: Bytes, golden: Bytes, element_type: str, bounds: Bounds) -> npt.NDArray[np.bool_]:
    """Which elements of two buffers of whole elements agree, bool[n].

    Raises ValueError if the sizes differ.
    """
    _same_size(actual, golden)
    element = numpy_dtype(element_type)
    left, right = actual.view(element), golden.view(element)
    if element_type in INTEGER_TYPES:
        return _Integers(left, right).agree(bounds)
    return _Floats(left, right).agree(bounds)


def equal_integers(elements: int) -> Difference:
    """What a comparison finds where all is the same and no element can be NaN or infinite."""
    return Difference(
        elements=elements,
        differing=0,
        failing=0,
        nan_actual=0,
        nan_golden=0,
        infinite_actual=0,
        infinite_golden=0,
        max_absolute=0.0,
        max_relative=0.0,
        max_ulp=0,
        worst_offset_bytes=None,
        worst_actual=None,
        worst_golden=None,
    )


def merge(parts: Sequence[Difference]) -> Difference:
    """Sum up the comparisons of parts of one buffer; worst offsets must already count from the same start."""
    worst = max(
        (part for part in parts if part.worst_offset_bytes is not None),
        key=lambda part: (part.failing > 0, part.max_ulp, part.max_absolute),
        default=None,
    )
    return Difference(
        elements=sum(part.elements for part in parts),
        differing=sum(part.differing for part in parts),
        failing=sum(part.failing for part in parts),
        nan_actual=sum(part.nan_actual for part in parts),
        nan_golden=sum(part.nan_golden for part in parts),
        infinite_actual=sum(part.infinite_actual for part in parts),
        infinite_golden=sum(part.infinite_golden for part in parts),
        max_absolute=max((part.max_absolute for part in parts), default=0.0),
        max_relative=max((part.max_relative for part in parts), default=0.0),
        max_ulp=max((part.max_ulp for part in parts), default=0),
        worst_offset_bytes=worst.worst_offset_bytes if worst else None,
        worst_actual=worst.worst_actual if worst else None,
        worst_golden=worst.worst_golden if worst else None,
    )


def _same_size(actual: Bytes, golden: Bytes) -> None:
    if actual.size != golden.size:
        raise ValueError(f"compared buffers differ in size: {actual.size} and {golden.size} bytes")


def _ordered(values: npt.NDArray[Any], element: np.dtype[Any]) -> npt.NDArray[np.int64]:
    """Map floats to integers whose distance counts representable values; both zeros map to 0."""
    bits = values.view(np.dtype(f"int{8 * element.itemsize}")).astype(np.int64)
    lowest = np.int64(-(1 << (8 * element.itemsize - 1)))
    return np.where(bits < 0, lowest - bits, bits)


def _differing(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    raw = np.dtype(f"uint{8 * left.dtype.itemsize}")
    differing: npt.NDArray[np.bool_] = left.view(raw) != right.view(raw)
    return differing


class _Floats:
    """Two arrays of one type as numbers, and how far apart they are."""

    def __init__(self, left: npt.NDArray[Any], right: npt.NDArray[Any]) -> None:
        self.differing = _differing(left, right)
        # Widening a signalling NaN is invalid to the processor, not to us.
        with np.errstate(invalid="ignore"):
            self.a, self.g = left.astype(np.float64), right.astype(np.float64)
        self.nan_a, self.nan_g = np.isnan(self.a), np.isnan(self.g)
        self.inf_a, self.inf_g = np.isinf(self.a), np.isinf(self.g)
        self.finite = ~(self.nan_a | self.nan_g | self.inf_a | self.inf_g)
        ordered = _ordered(left, left.dtype), _ordered(right, left.dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            self.absolute = np.where(self.a == self.g, 0.0, np.abs(self.a - self.g))
            # The distance of two int64 can overflow only between the two ends of f64; saturate there.
            self.gap = np.abs(ordered[0].astype(np.float64) - ordered[1].astype(np.float64))
            exact_gap = np.abs(ordered[0] - ordered[1])
        self.ulp = np.where(self.gap < 2.0**53, exact_gap, np.int64(2**62))

    def agree(self, bounds: Bounds) -> npt.NDArray[np.bool_]:
        agree: npt.NDArray[np.bool_] = ~self.differing
        if not bounds.exact:
            agree |= (self.nan_a & self.nan_g) | (self.a == self.g)
            if bounds.atol is not None or bounds.rtol is not None:
                size = np.abs(np.where(self.inf_g, 0.0, self.g))  # of what is infinite nothing is relative
                near = self.absolute <= (bounds.atol or 0.0) + (bounds.rtol or 0.0) * size
                agree |= self.finite & near
            if bounds.ulp is not None:
                agree |= self.finite & (self.ulp <= bounds.ulp)
        return agree


class _Integers:
    """The same of integers."""

    def __init__(self, left: npt.NDArray[Any], right: npt.NDArray[Any]) -> None:
        self.differing = _differing(left, right)
        # Exact unsigned distance without overflow: subtract the smaller from the larger in the unsigned type.
        unsigned = np.dtype(f"uint{8 * left.dtype.itemsize}")
        high, low = np.maximum(left, right), np.minimum(left, right)
        self.gap = high.view(unsigned) - low.view(unsigned)
        self.distance = self.gap.astype(np.float64)
        self.magnitude = np.abs(right.astype(np.float64))

    def agree(self, bounds: Bounds) -> npt.NDArray[np.bool_]:
        agree: npt.NDArray[np.bool_] = ~self.differing
        if bounds.atol is not None or bounds.rtol is not None:
            agree |= self.distance <= (bounds.atol or 0.0) + (bounds.rtol or 0.0) * self.magnitude
        if bounds.ulp is not None:
            agree |= self.gap <= np.uint64(bounds.ulp)
        return agree


def _compare_batch(
    actual: Bytes,
    golden: Bytes,
    element: np.dtype[Any],
    element_type: str,
    bounds: Bounds,
    start: int,
    end: int,
) -> Difference:
    window = slice(start * element.itemsize, end * element.itemsize)
    left, right = actual[window].view(element), golden[window].view(element)
    if element_type in INTEGER_TYPES:
        return _compare_integers(left, right, bounds, start * element.itemsize)
    floats = _Floats(left, right)
    a, g, differing, finite = floats.a, floats.g, floats.differing, floats.finite
    failing = ~floats.agree(bounds)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        relative = np.where(floats.absolute == 0.0, 0.0, floats.absolute / np.abs(g))
    ranked = np.where(differing, np.where(finite, floats.gap + 1.0, np.inf), 0.0) + np.where(
        failing, 1e300, 0.0
    )
    worst = int(np.argmax(ranked)) if differing.any() else None
    return Difference(
        elements=end - start,
        differing=int(differing.sum()),
        failing=int(failing.sum()),
        nan_actual=int(floats.nan_a.sum()),
        nan_golden=int(floats.nan_g.sum()),
        infinite_actual=int(floats.inf_a.sum()),
        infinite_golden=int(floats.inf_g.sum()),
        max_absolute=float(floats.absolute[finite].max(initial=0.0)),
        max_relative=float(relative[finite].max(initial=0.0)),
        max_ulp=int(floats.ulp[finite].max(initial=0)),
        worst_offset_bytes=None if worst is None else (start + worst) * element.itemsize,
        worst_actual=None if worst is None else float(a[worst]),
        worst_golden=None if worst is None else float(g[worst]),
    )


def _compare_integers(
    left: npt.NDArray[Any], right: npt.NDArray[Any], bounds: Bounds, base_bytes: int
) -> Difference:
    integers = _Integers(left, right)
    differing, gap = integers.differing, integers.gap
    distance, magnitude = integers.distance, integers.magnitude
    failing = ~integers.agree(bounds)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(distance == 0.0, 0.0, distance / magnitude)
    worst = int(np.argmax(np.where(failing, 2.0, 1.0) * distance)) if differing.any() else None
    return Difference(
        elements=left.size,
        differing=int(differing.sum()),
        failing=int(failing.sum()),
        nan_actual=0,
        nan_golden=0,
        infinite_actual=0,
        infinite_golden=0,
        max_absolute=float(distance.max(initial=0.0)),
        max_relative=float(relative[np.isfinite(relative)].max(initial=0.0)),
        max_ulp=min(int(gap.max(initial=0)), 2**62),
        worst_offset_bytes=None if worst is None else base_bytes + worst * left.dtype.itemsize,
        worst_actual=None if worst is None else float(left[worst]),
        worst_golden=None if worst is None else float(right[worst]),
    )
