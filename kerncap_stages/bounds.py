"""Types of elements and bounds on their errors: what a comparison is asked for, known without numpy."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class Bounds:
    """How far an element may be off. ``ulp`` counts representable values of the element's type."""

    atol: float | None = None
    rtol: float | None = None
    ulp: int | None = None

    @property
    def exact(self) -> bool:
        """No bound at all: bytes must be equal."""
        return self.atol is None and self.rtol is None and self.ulp is None
