"""What the bits of floats mean: signs, numbers, zeros, and infinities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Words = npt.NDArray[np.unsignedinteger]

# The integer of each float's size, and how many bits its mantissa has.
FLOATS: dict[str, tuple[type[np.unsignedinteger], int]] = {
    "fp64": (np.uint64, 52),
    "fp32": (np.uint32, 23),
    "fp16": (np.uint16, 10),
    "bf16": (np.uint16, 7),
}
_FIRST_LOOK = 1 << 16  # elements; mostly one of them is a number, so that no others are looked at


def find_landmarks(element_type: str) -> tuple[np.unsignedinteger, ...]:
    """Return the bits of a float's sign, of the least normal number, and of infinity."""
    word, mantissa_bits = FLOATS[element_type]
    sign = 1 << (8 * np.dtype(word).itemsize - 1)
    return word(sign), word(1 << mantissa_bits), word((sign >> mantissa_bits) - 1 << mantissa_bits)


def find_usual(values: Words, element_type: str) -> npt.NDArray[np.bool_]:
    """Mark the floats that are neither zeros nor subnormal numbers, infinities or NaNs."""
    sign, least, infinite = find_landmarks(element_type)
    sizes = values & ~sign
    usual: npt.NDArray[np.bool_] = (sizes >= least) & (sizes < infinite)
    return usual


def have_no_numbers(values: Words, element_type: str) -> bool:
    """Whether floats are zeros, infinities and NaNs alone, as an additive mask is."""
    sign, _, infinite = find_landmarks(element_type)
    slabs = (values[low : low + _FIRST_LOOK] & ~sign for low in range(0, values.size, _FIRST_LOOK))
    return all(bool(((sizes == 0) | (sizes >= infinite)).all()) for sizes in slabs)
