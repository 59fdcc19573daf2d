"""Functions and constants that kernels of another module use."""

from __future__ import annotations

import triton
import triton.language as tl

SCALE = tl.constexpr(2.0)


@triton.jit
def twice(x):
    return x * SCALE


@triton.jit(do_not_specialize=["low"])
def clamp(x, low, high):
    return tl.minimum(tl.maximum(x, low), high)
