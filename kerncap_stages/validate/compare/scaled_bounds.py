"""Bounds that are relative to the largest element of an output, not to each element."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from kerncap_stages.validate.compare.bounds import FLOAT_TYPES
from kerncap_stages.validate.compare.elements import find_dtype

if TYPE_CHECKING:
    import numpy.typing as npt

    from kerncap_stages.validate.compare.bounds import Bounds


def scale_bounds(bounds: Bounds, golden: npt.NDArray[np.uint8], element_type: str | None) -> Bounds:
    """Return the bounds with an absolute one added, as large as the relative ones of the largest element.

    golden: uint8[size_bytes], all elements. Bounds on other types than floats stay as they are.
    """
    if bounds.is_exact or element_type not in FLOAT_TYPES:
        return bounds
    dtype = find_dtype(element_type)
    values = golden[: golden.size // dtype.itemsize * dtype.itemsize].view(dtype).astype(np.float64)
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    epsilon = float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]
    relative = max(bounds.rtol or 0.0, (bounds.ulp or 0) * epsilon)
    return replace(bounds, atol=(bounds.atol or 0.0) + relative * largest)
