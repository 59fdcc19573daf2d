"""Compares the bytes that a kernel wrote with the golden ones, byte by byte or by element type.

A numeric comparison accepts an element if it meets one of the given bounds:
``|actual - golden| <= atol + rtol * |golden|``, or at most ``ulp`` representable values apart. Two NaNs
agree, and so do two infinities with the same sign. Without bounds only equal bytes agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from kerncap_stages.validate.compare.bounds import ELEMENT_TYPES, FLOAT_TYPES, INTEGER_TYPES, ML_TYPES, Bounds

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
    "Worst",
    "compare_bytes",
    "compare_elements",
    "find_dtype",
    "mark_within_bounds",
    "merge",
]
# Elements compared at a time: limits the memory of a comparison to tens of MiB for regions of any size.
_BATCH_ELEMENTS = 1 << 20
_UNBOUNDED_GAP = np.uint64(2**64 - 1)
_MAX_ULP = 2**62  # largest ULP distance in a verdict


@dataclass(frozen=True)
class Worst:
    """The element with the largest error, among those beyond the bounds if there are any.

    error: in multiples of what --atol and --rtol allow, or in ULPs if only --ulp is given, or absolute
    without bounds. It is infinite between a number and a NaN or infinity, and 0 between two NaNs.
    gap: representable values between actual and golden; it orders elements with equal errors.
    """

    offset_bytes: int
    actual: float  # an exact int if the elements are integers
    golden: float
    fails: bool
    error: float
    gap: int

    @property
    def rank(self) -> tuple[bool, float, int]:
        """A key for sorting: the worse of two elements has the larger one."""
        return self.fails, self.error, self.gap


@dataclass(frozen=True)
class Difference:
    """The result of comparing ``elements`` elements; offsets count from the start of the compared bytes."""

    elements: int
    differing: int = 0  # not equal byte for byte
    failing: int = 0  # beyond the bounds
    nan_actual: int = 0
    nan_golden: int = 0
    infinite_actual: int = 0
    infinite_golden: int = 0
    unbounded: int = 0  # not equal byte for byte, and one of the two is a NaN or infinity
    max_absolute: float = 0.0
    square_sum: float = 0.0  # of absolute errors, of floats
    max_relative: float = 0.0
    max_ulp: int = 0
    worst: Worst | None = None

    @property
    def passed(self) -> bool:
        """Whether every element is within the bounds."""
        return self.failing == 0

    @property
    def is_finite(self) -> bool:
        """Whether there is neither a NaN nor an infinity among the elements that differ."""
        return self.unbounded == 0


@cache
def find_dtype(element_type: str) -> np.dtype[Any]:
    """Return the numpy type of an element type, such as ``bf16``."""
    if element_type in ML_TYPES:
        scalar: type[Any] = getattr(ml_dtypes, ML_TYPES[element_type])
        return np.dtype(scalar)
    return np.dtype(element_type.replace("fp", "float"))


def compare_bytes(actual: Bytes, golden: Bytes) -> npt.NDArray[np.int64]:
    """Return the offsets of the bytes that differ, int64[n], ascending."""
    _require_same_size(actual, golden)
    return np.flatnonzero(actual != golden).astype(np.int64)


def compare_elements(
    actual: Bytes,
    golden: Bytes,
    element_type: str,
    bounds: Bounds,
    *,
    batch_elements: int = _BATCH_ELEMENTS,
) -> Difference:
    """Compare two buffers with the same element type, ``batch_elements`` at a time.

    actual, golden: uint8[size_bytes], C-contiguous; trailing bytes that do not fill an element must be equal.
    Raises ValueError if the sizes differ.
    """
    _require_same_size(actual, golden)
    element = find_dtype(element_type)
    count = actual.size // element.itemsize
    parts = [
        _compare_batch(
            actual, golden, element, element_type, bounds, start, min(start + batch_elements, count)
        )
        for start in range(0, count, batch_elements)
    ]
    tail = int(np.count_nonzero(actual[count * element.itemsize :] != golden[count * element.itemsize :]))
    whole = merge(parts)
    return replace(whole, differing=whole.differing + tail, failing=whole.failing + tail)


def mark_within_bounds(
    actual: Bytes, golden: Bytes, element_type: str, bounds: Bounds
) -> npt.NDArray[np.bool_]:
    """Mark the elements of two buffers that agree within the bounds, bool[n]. Buffers hold whole elements.

    Raises ValueError if the sizes differ.
    """
    _require_same_size(actual, golden)
    element = find_dtype(element_type)
    left, right = actual.view(element), golden.view(element)
    if element_type in INTEGER_TYPES:
        return _Integers(left, right).agree(bounds)
    return _Floats(left, right).agree(bounds)


def merge(parts: Sequence[Difference]) -> Difference:
    """Merge the results for parts of one buffer; offsets must already count from the same start."""
    found = [part.worst for part in parts if part.worst is not None]
    return Difference(
        elements=sum(part.elements for part in parts),
        differing=sum(part.differing for part in parts),
        failing=sum(part.failing for part in parts),
        nan_actual=sum(part.nan_actual for part in parts),
        nan_golden=sum(part.nan_golden for part in parts),
        infinite_actual=sum(part.infinite_actual for part in parts),
        infinite_golden=sum(part.infinite_golden for part in parts),
        unbounded=sum(part.unbounded for part in parts),
        max_absolute=max((part.max_absolute for part in parts), default=0.0),
        square_sum=sum(part.square_sum for part in parts),
        max_relative=max((part.max_relative for part in parts), default=0.0),
        max_ulp=max((part.max_ulp for part in parts), default=0),
        worst=max(found, key=lambda worst: worst.rank, default=None),
    )


def _require_same_size(actual: Bytes, golden: Bytes) -> None:
    if actual.size != golden.size:
        raise ValueError(f"compared buffers differ in size: {actual.size} and {golden.size} bytes")


def _map_to_order(values: npt.NDArray[Any], element: np.dtype[Any]) -> npt.NDArray[np.int64]:
    """Map floats to integers whose distance counts representable values; both zeros map to 0."""
    bits = values.view(np.dtype(f"int{8 * element.itemsize}")).astype(np.int64)
    lowest = np.int64(-(1 << (8 * element.itemsize - 1)))
    return np.where(bits < 0, lowest - bits, bits)


def _measure_distance(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return the distances between integers of one type, computed as unsigned, which cannot overflow."""
    unsigned = np.dtype(f"uint{8 * left.dtype.itemsize}")
    high, low = np.maximum(left, right), np.minimum(left, right)
    distance: npt.NDArray[np.uint64] = (high.view(unsigned) - low.view(unsigned)).astype(np.uint64)
    return distance


def _mark_differing(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    raw = np.dtype(f"uint{8 * left.dtype.itemsize}")
    differing: npt.NDArray[np.bool_] = left.view(raw) != right.view(raw)
    return differing


def _compute_allowed(magnitude: npt.NDArray[Any], bounds: Bounds) -> npt.NDArray[np.float64]:
    """Return the absolute error that --atol and --rtol allow for each element."""
    allowed: npt.NDArray[np.float64] = (bounds.atol or 0.0) + (bounds.rtol or 0.0) * magnitude
    return allowed


class _Floats:
    """Two arrays of a floating-point type as numbers, and their distances."""

    def __init__(self, left: npt.NDArray[Any], right: npt.NDArray[Any]) -> None:
        self.differing = _mark_differing(left, right)
        # The processor reports converting a signalling NaN as invalid, which does not matter here.
        with np.errstate(invalid="ignore"):
            self.a, self.g = left.astype(np.float64), right.astype(np.float64)
        self.nan_a, self.nan_g = np.isnan(self.a), np.isnan(self.g)
        self.inf_a, self.inf_g = np.isinf(self.a), np.isinf(self.g)
        self.finite = ~(self.nan_a | self.nan_g | self.inf_a | self.inf_g)
        with np.errstate(invalid="ignore", over="ignore"):
            self.absolute = np.where(self.a == self.g, 0.0, np.abs(self.a - self.g))
        self.magnitude = np.abs(np.where(self.inf_g, 0.0, self.g))  # no error is relative to infinity
        gap = _measure_distance(_map_to_order(left, left.dtype), _map_to_order(right, left.dtype))
        alike = (self.nan_a & self.nan_g) | (self.a == self.g)
        self.gap = np.where(alike, np.uint64(0), np.where(self.finite, gap, _UNBOUNDED_GAP))

    def agree(self, bounds: Bounds) -> npt.NDArray[np.bool_]:
        agree: npt.NDArray[np.bool_] = ~self.differing
        if not bounds.is_exact:
            agree |= (self.nan_a & self.nan_g) | (self.a == self.g)
            if bounds.atol is not None or bounds.rtol is not None:
                agree |= self.finite & (self.absolute <= _compute_allowed(self.magnitude, bounds))
            if bounds.ulp is not None:
                agree |= self.finite & (self.gap <= np.uint64(bounds.ulp))
        return agree


class _Integers:
    """Two arrays of an integer type as numbers, and their distances."""

    def __init__(self, left: npt.NDArray[Any], right: npt.NDArray[Any]) -> None:
        self.differing = _mark_differing(left, right)
        self.gap = _measure_distance(left, right)
        self.absolute = self.gap.astype(np.float64)
        self.magnitude = np.abs(right.astype(np.float64))

    def agree(self, bounds: Bounds) -> npt.NDArray[np.bool_]:
        agree: npt.NDArray[np.bool_] = ~self.differing
        if bounds.atol is not None or bounds.rtol is not None:
            agree |= self.absolute <= _compute_allowed(self.magnitude, bounds)
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
    finite = floats.finite
    failing = ~floats.agree(bounds)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        relative = np.where(floats.absolute == 0.0, 0.0, floats.absolute / np.abs(floats.g))
        square_sum = float(np.square(floats.absolute[finite]).sum())
    return Difference(
        elements=end - start,
        differing=int(floats.differing.sum()),
        failing=int(failing.sum()),
        nan_actual=int(floats.nan_a.sum()),
        nan_golden=int(floats.nan_g.sum()),
        infinite_actual=int(floats.inf_a.sum()),
        infinite_golden=int(floats.inf_g.sum()),
        unbounded=int((floats.differing & ~finite).sum()),
        max_absolute=float(floats.absolute[finite].max(initial=0.0)),
        square_sum=square_sum,
        max_relative=float(relative[finite].max(initial=0.0)),
        max_ulp=min(int(floats.gap[finite].max(initial=0)), _MAX_ULP),
        worst=_find_worst(floats, failing, bounds, left, right, start * element.itemsize),
    )


def _compare_integers(
    left: npt.NDArray[Any], right: npt.NDArray[Any], bounds: Bounds, base_bytes: int
) -> Difference:
    integers = _Integers(left, right)
    distance, magnitude = integers.absolute, integers.magnitude
    failing = ~integers.agree(bounds)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(distance == 0.0, 0.0, distance / magnitude)
    return Difference(
        elements=left.size,
        differing=int(integers.differing.sum()),
        failing=int(failing.sum()),
        max_absolute=float(distance.max(initial=0.0)),
        max_relative=float(relative[np.isfinite(relative)].max(initial=0.0)),
        max_ulp=min(int(integers.gap.max(initial=0)), _MAX_ULP),
        worst=_find_worst(integers, failing, bounds, left, right, base_bytes),
    )


def _find_worst(
    found: _Floats | _Integers,
    failing: npt.NDArray[np.bool_],
    bounds: Bounds,
    left: npt.NDArray[Any],
    right: npt.NDArray[Any],
    base_bytes: int,
) -> Worst | None:
    """Return the worst element of a batch that begins at ``base_bytes``; the first of equally bad ones."""
    fails = bool(failing.any())
    among = np.flatnonzero(failing if fails else found.differing)
    if not among.size:
        return None
    error = _measure_error(found, bounds)[among]
    among = among[error == error.max()]
    worst = int(among[np.argmax(found.gap[among])])
    number = int if left.dtype.kind in "iu" else float
    return Worst(
        offset_bytes=base_bytes + worst * left.dtype.itemsize,
        actual=number(left[worst]),
        golden=number(right[worst]),
        fails=fails,
        error=float(error.max()),
        gap=int(found.gap[worst]),
    )


def _measure_error(found: _Floats | _Integers, bounds: Bounds) -> npt.NDArray[np.float64]:
    """Return the error of each element, as ``Worst.error`` defines it."""
    error: npt.NDArray[np.float64]
    if bounds.atol is not None or bounds.rtol is not None:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            error = found.absolute / _compute_allowed(found.magnitude, bounds)
    elif bounds.ulp is not None:
        error = found.gap.astype(np.float64)
    else:
        error = found.absolute
    error = np.where(found.gap == _UNBOUNDED_GAP, np.inf, error)
    return np.where(found.gap == 0, 0.0, error)
