"""Guesses the type of elements that nobody tells, by their values: numbers of one kind look alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.validate.compare.bounds import INTEGER_TYPES

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

_SAMPLE_BYTES = 1 << 22
_LEAST = 4  # numbers that are not zero; of fewer nothing can be told
_MOST_OF_THEM = 0.9
# The exponents of usual numbers, from 2^-40 to 2^40: fp16 has fewer, of which the outermost are left out.
_PLAUSIBLE = 40
_SLAB_WORDS = 1 << 16  # counted at a time, so that they stay in the processor's cache
# Numbers of one magnitude have bf16 exponents within this deviation. One exponent of fp16 would be eight.
_NARROW = 6.0
# Bytes, and the bits of the exponent.
_SHAPES = {
    "fp64": (8, 0x7FF0_0000_0000_0000),
    "fp32": (4, 0x7F80_0000),
    "fp16": (2, 0x7C00),
    "bf16": (2, 0x7F80),
}
ELEMENT_BYTES = {name: size for name, (size, _) in _SHAPES.items()}
_INFINITE = 1 << 20


def guess_float(content: Bytes) -> str | None:
    """Return the floating-point type that most numbers of a piece of memory look like; None: none.

    Small integers, as indices and flags are, would be tiny numbers. In words of two 16-bit floats the lower
    half is plausible, too, which the lower bits of a longer float are not.
    """
    content = content[: min(content.size, _SAMPLE_BYTES) // 8 * 8]
    words = content.view(np.uint32)
    count = int(np.count_nonzero(words))
    if count < _LEAST or not _are_mostly(_count_exponents(words, 23, 8, _PLAUSIBLE), count):
        return None
    used = words[words != 0]
    low, high = words[0::2], words[1::2]
    if not low.any() and np.count_nonzero(high) >= _LEAST:
        return "fp64"  # of few digits; others look like no float of 32 bits
    halves = (used & np.uint32(0xFFFF)).astype(np.uint16)
    halves = halves[halves != 0]
    if halves.size > used.size // 2:
        is_narrow = float(((halves >> 7) & 0xFF).std()) < _NARROW
        if is_narrow and _are_mostly(_count_exponents(halves, 7, 8, _PLAUSIBLE), halves.size):
            return "bf16"
        # Of random bits two thirds are plausible.
        if _are_mostly(_count_exponents(halves, 10, 5, 10), halves.size):
            return "fp16"
    return "fp32"


def find_type(told: str | None, content: Bytes) -> str | None:
    """Return the type of elements: what is told, but of integers that look like floats that type.

    Programs keep bf16 in short integers, and load floats as vectors of integers, or by way of bytes.
    """
    if told is not None and told not in INTEGER_TYPES:
        return told
    return guess_float(content) or told


def guess_integer(content: Bytes) -> str | None:
    """Return int32 if most words of a piece of memory are small integers; None: they are not.

    Shorter integers, and flags in bytes, have neighbours in the same word, which is then no small number.
    """
    words = content[: min(content.size, _SAMPLE_BYTES) // 4 * 4].view(np.int32)
    used = words[words != 0]
    if used.size < _LEAST or not _are_mostly(int(np.count_nonzero(used == used.astype(np.int16))), used.size):
        return None
    return "int32"


def differ_as_floats(element_type: str, one: Bytes, other: Bytes) -> bool:
    """Whether all elements that differ look like floats of this type, or are zeros, on both sides.

    Small integers look like denormal numbers. Each side: uint8[size_bytes].
    """
    size, exponent = _SHAPES[element_type]
    end = min(one.size, other.size) // size * size
    left, right = (each[:end].view(f"u{size}") for each in (one, other))
    differing = left != right
    return not any(
        bool(((each != 0) & (each & each.dtype.type(exponent) == 0)).any())
        for each in (left[differing], right[differing])
    )


def find_exponents(element_type: str, content: Bytes) -> npt.NDArray[np.int32]:
    """Return the exponents of all whole elements: int32[n], -1 of zeros, huge of NaNs and infinities."""
    size, mask = _SHAPES[element_type]
    words = content[: content.size // size * size].view(f"u{size}")
    kind = words.dtype.type
    lowest = mask & -mask
    exponents: npt.NDArray[np.int32] = ((words & kind(mask)) // kind(lowest)).astype(np.int32)
    exponents[exponents == mask // lowest] = _INFINITE
    exponents[words << kind(1) == 0] = -1
    return exponents


def _count_exponents(
    words: npt.NDArray[np.unsignedinteger], mantissa_bits: int, exponent_bits: int, most: int
) -> int:
    """Count the words whose exponents are at most so far from the middle; that of a zero is not."""
    kind = words.dtype.type
    ones = (1 << exponent_bits) - 1
    first, last = (kind((ones >> 1) + each << mantissa_bits) for each in (-most, most))
    count = 0
    for start in range(0, words.size, _SLAB_WORDS):
        exponents = words[start : start + _SLAB_WORDS] & kind(ones << mantissa_bits)
        # A smaller one becomes a very large number.
        count += int(np.count_nonzero(exponents - first <= last - first))
    return count


def _are_mostly(count: int, of: int) -> bool:
    return count / of >= _MOST_OF_THEM
