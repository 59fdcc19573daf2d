"""Inputs for vector instructions: random bits mixed with the values where arithmetic goes wrong."""

from __future__ import annotations

import numpy as np

LANES = 64
FLOAT_EDGES = {
    16: [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x8400, 0x3800, 0x3C00, 0xBC00, 0x3C01, 0x4000,
    0x4900, 0x7BFF,
         0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7D00, 0xFC01, 0x5BFF, 0x1400, 0x3555, 0x6400, 0x77FF],
    32: [0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x3F000000,
    0xBF000000,
         0x3F800000, 0xBF800000, 0x3F7FFFFF, 0x3F800001, 0x40000000, 0x4B000000, 0x4B7FFFFF, 0x4EFFFFFF,
         0x4F000000,
         0xCF000000, 0x4F7FFFFF, 0x4F800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000,
         0xFFC00001,
         0x7FA00000, 0xFF800001, 0x3FC00000, 0x40200000, 0x34000000, 0x42FE0000, 0xC2FC0000, 0x437F8000],
    64: [0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x800FFFFFFFFFFFFF, 0x0010000000000000,
         0x3FE0000000000000, 0x3FF0000000000000, 0xBFF0000000000000, 0x3FF0000000000001, 0x41DFFFFFFFC00000,
         0x41E0000000000000, 0xC1E0000000200000, 0x41EFFFFFFFE00000, 0x4330000000000000, 0x433FFFFFFFFFFFFF,
         0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000,
         0xFFF8000000000001, 0x7FF4000000000000, 0xFFF0000000000001, 0x4004000000000000, 0x3E90000000000000],
}  # fmt: skip
INTEGER_EDGES = [0, 1, 2, 3, 7, 12, 13, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000,
                 0x7FFFFF, 0x800000, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE,
                 0xFFFFFFFF]  # fmt: skip


def plain_floats(random: np.random.Generator, width: int) -> np.ndarray:
    """Numbers of ordinary size, where results are neither zero nor infinite."""
    dtype, bits = {16: (np.float16, np.uint16), 32: (np.float32, np.uint32), 64: (np.float64, np.uint64)}[
        width
    ]
    values = random.standard_normal(LANES) * 2.0 ** random.integers(-6, 7, LANES)
    return values.astype(dtype).view(bits).astype(np.uint64)


def mixed(random: np.random.Generator, *choices: np.ndarray) -> np.ndarray:
    return np.choose(random.integers(0, len(choices), LANES), choices)


def values(random: np.random.Generator, kind: str, width: int) -> np.ndarray:
    """uint64[64]: operands of one register or pair. 16-bit ones have something in their high half, too."""
    anything = random.integers(0, 1 << 64, LANES, np.uint64)
    if kind == "float":
        edges = random.choice(np.array(FLOAT_EDGES[width], np.uint64), LANES)
        result = mixed(random, edges, plain_floats(random, width), plain_floats(random, width), anything)
    elif kind == "packed":
        low, high = (values(random, "float", 16) & np.uint64(0xFFFF) for _ in range(2))
        return low | high << np.uint64(16)
    else:
        edges = random.choice(np.array(INTEGER_EDGES, np.uint64), LANES)
        small = random.integers(0, 40, LANES, np.uint64)
        result = mixed(random, edges, small, anything, anything)
        if width == 64:
            result = mixed(random, result, result << np.uint64(32), ~result)
    if width == 16:
        return (result & np.uint64(0xFFFF)) | (anything & np.uint64(0xFFFF0000))
    return result & np.uint64((1 << width) - 1) if width < 64 else result


def packed_pair(random: np.random.Generator, kind: str) -> np.ndarray:
    """Two 32-bit values in a pair of registers."""
    low, high = (values(random, kind, 32) for _ in range(2))
    return low | high << np.uint64(32)
