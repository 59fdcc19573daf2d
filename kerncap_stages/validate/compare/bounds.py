"""Types of elements and bounds on their errors. This module does not import numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kerncap_stages.errors import UsageError

INTEGER_TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
ML_TYPES = {
    "bf16": "bfloat16",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "fp8_e4m3_fnuz": "float8_e4m3fnuz",
    "fp8_e5m2_fnuz": "float8_e5m2fnuz",
}
FLOAT_TYPES = ("fp64", "fp32", "fp16", *ML_TYPES)
ELEMENT_TYPES = FLOAT_TYPES + INTEGER_TYPES
_MAX_ULP = 2**63


@dataclass(frozen=True)
class Bounds:
    """How large the error of an element may be. ``ulp`` counts representable values of the element's type."""

    atol: float | None = None
    rtol: float | None = None
    ulp: int | None = None

    @property
    def is_exact(self) -> bool:
        """Whether there are no bounds, so that bytes must be equal."""
        return self.atol is None and self.rtol is None and self.ulp is None


def make_bounds(atol: float | None, rtol: float | None, ulp: int | None) -> Bounds:
    """Make bounds from the user's options.

    Raises UsageError for a bound that is not a number, infinite, negative or too large.
    """
    if ulp is not None and not 0 <= ulp < _MAX_ULP:
        raise UsageError(f"the ULP bound {ulp} is not from 0 to 2^63", hint="e.g. --ulp 2")
    for name, value in (("absolute", atol), ("relative", rtol)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise UsageError(f"the {name} bound {value} is not a finite number >= 0", hint="e.g. 1e-6")
    return Bounds(atol, rtol, ulp)
