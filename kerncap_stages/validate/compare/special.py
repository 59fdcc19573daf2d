"""Lets NaN and infinity stand for each other, where the captured launch gave neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.validate.compare.bounds import FLOAT_TYPES
from kerncap_stages.validate.compare.elements import find_dtype

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]


def take_special(actual: Bytes, expected: Bytes, captured: Bytes, element_type: str | None) -> bool:
    """Put the expected element, in place, where one of the two is NaN and the other NaN or infinity.

    Returns whether there was one. Nothing changes if the captured launch gave NaN or infinity. Each:
    uint8[size of the part].
    """
    if element_type not in FLOAT_TYPES:
        return False
    dtype = find_dtype(element_type)
    end = actual.size // dtype.itemsize * dtype.itemsize
    with np.errstate(invalid="ignore"):
        now, wanted, then = (
            each[:end].view(dtype).astype(np.float64) for each in (actual, expected, captured)
        )
    if not np.isfinite(then).all():
        return False
    alike = ~np.isfinite(now) & ~np.isfinite(wanted) & (np.isnan(now) | np.isnan(wanted))
    both = np.repeat(alike, dtype.itemsize)
    is_changed = bool((actual[:end][both] != expected[:end][both]).any())
    actual[:end][both] = expected[:end][both]
    return is_changed
