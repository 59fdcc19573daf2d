"""Two Triton kernels of one name, and another one between them."""

import numpy as np
import triton
import triton.language as tl
from arrays import Array


def make():
    @triton.jit
    def scale(x, FACTOR: tl.constexpr):
        at = tl.arange(0, 64)
        tl.store(x + at, tl.load(x + at) * FACTOR)

    return scale


@triton.jit
def other(x):
    tl.store(x, 7.0)


x = Array(np.ones(64, np.float32))
make()[(1,)](x, 3.0)
other[(1,)](x)
make()[(1,)](x, 5.0)
print("right" if x.read()[1] == 15 else "wrong")
