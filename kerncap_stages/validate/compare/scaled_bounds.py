"""Bounds that are relative to the largest element of an output, not to each element."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from kerncap_stages.validate.compare.bounds import FLOAT_TYPES, Bounds
from kerncap_stages.validate.compare.elements import find_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]


# By how much of the largest element sums of many numbers may differ from run to run: so many ULP, but no less
# and no more than these parts of it.
_ROUNDING_ULP = 8
_LEAST_ROUNDING = 2.0**-12
_MOST_ROUNDING = 2.0**-6
_FEW_NEAR_ZERO = 0.01
_ROUNDED_TYPES = ("fp64", "fp32", "fp16", "bf16")  # an fp8 number is an eighth away from the next


def _find_epsilon(element_type: str) -> float:
    return float(ml_dtypes.finfo(find_dtype(element_type)).eps)  # type: ignore[no-untyped-call]


def find_rounding(element_type: str | None) -> Bounds:
    """Return the largest relative difference that another order of operations may explain; none of fp8."""
    if element_type not in _ROUNDED_TYPES:
        return Bounds()
    epsilon = _find_epsilon(element_type)
    return Bounds(rtol=min(_MOST_ROUNDING, max(_ROUNDING_ULP * epsilon, _LEAST_ROUNDING)))


def limit_rounding(bounds: Bounds, element_type: str | None) -> Bounds:
    """Return bounds in ULP that are no wider than the order of operations explains: bf16 has 2 ULP of 16.

    What is no such float does not round: integers must be the same, and 8-bit floats.
    """
    if bounds.ulp is None:
        return bounds
    if element_type not in _ROUNDED_TYPES:
        return Bounds()
    epsilon = _find_epsilon(element_type)
    return replace(bounds, ulp=min(bounds.ulp, int(_MOST_ROUNDING / epsilon)))


def find_closeness(element_type: str | None) -> tuple[Bounds, float]:
    """Return how far elements may be from the right ones, by their own sizes, if sums have another order.

    Second: the share of elements that may be further away. Few are near zero, where sums cancel each other.
    Without it a few huge elements would hide all others.
    """
    if element_type not in _ROUNDED_TYPES:
        return Bounds(), 0.0
    epsilon = _find_epsilon(element_type)
    return Bounds(rtol=epsilon**0.5), max(_FEW_NEAR_ZERO, 4.0 * epsilon**0.5)


def scale_bounds(bounds: Bounds, written: Sequence[tuple[Bytes, ...]], element_type: str | None) -> Bounds:
    """Return the bounds with an absolute one added, as large as the relative ones of the largest element.

    written: an output before and after a kernel wrote it, each uint8[size_bytes]; several such pairs.
    Elements that did not change do not count. Bounds on other types than floats stay as they are.
    """
    if bounds.is_exact or element_type not in FLOAT_TYPES:
        return bounds
    dtype = find_dtype(element_type)
    epsilon = _find_epsilon(element_type)
    relative = max(bounds.rtol or 0.0, (bounds.ulp or 0) * epsilon)
    largest = max((_find_largest(before, after, dtype) for before, after in written), default=0.0)
    return replace(bounds, atol=(bounds.atol or 0.0) + relative * largest)


def grow_tolerance(
    bounds: Bounds, captured: Sequence[Bytes], fresh: Sequence[Bytes], element_type: str | None
) -> Bounds:
    """Return the bounds with an absolute one that has grown as an output has.

    It was chosen for the captured output, and an input that held zeros may hold numbers now. It grows no
    further than another order of operations explains; of an output that held zeros alone, as far as that.
    captured, fresh: the output before and after the kernel wrote it, as in ``scale_bounds``. Captured may be
    unknown: of other length.
    """
    if bounds.atol is None or element_type not in _ROUNDED_TYPES or len(captured) != len(fresh):
        return bounds
    dtype = find_dtype(element_type)
    before, now = (_find_largest(each[0], each[1], dtype) for each in (captured, fresh))
    share = min(_MOST_ROUNDING, bounds.atol / before) if before else find_rounding(element_type).rtol or 0.0
    return replace(bounds, atol=max(bounds.atol, share * now))


def _find_largest(before: Bytes, after: Bytes, dtype: np.dtype[Any]) -> float:
    """Return the size of the largest finite element that changed; 0 if there is none."""
    end = after.size // dtype.itemsize * dtype.itemsize
    changed = (before[:end] != after[:end]).reshape(-1, dtype.itemsize).any(axis=1)
    values = after[:end].view(dtype)[changed].astype(np.float64)
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
