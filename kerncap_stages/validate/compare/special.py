"""Lets NaN and the infinities stand for each other, where the captured launch gave none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.validate.compare.bounds import FLOAT_TYPES
from kerncap_stages.validate.compare.elements import find_dtype

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]


def take_special(actual: Bytes, expected: Bytes, captured: Bytes, element_type: str | None) -> None:
    """Put the expected NaNs and infinities where an output has others, in place.

    Nothing changes if the captured launch gave one. Each: uint8[size of the part].
    """
    if element_type not in FLOAT_TYPES:
        return
    dtype = find_dtype(element_type)
    end = actual.size // dtype.itemsize * dtype.itemsize
    with np.errstate(invalid="ignore"):
        now, wanted, then = (
            ~np.isfinite(each[:end].view(dtype).astype(np.float64)) for each in (actual, expected, captured)
        )
    if not then.any():
        both = np.repeat(now & wanted, dtype.itemsize)
        actual[:end][both] = expected[:end][both]
