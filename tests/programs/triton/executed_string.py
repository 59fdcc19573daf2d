"""A Triton kernel of a string that is executed, as in a notebook."""

import linecache

import numpy as np
import triton  # noqa: F401 - the string uses it
import triton.language as tl  # noqa: F401
from arrays import Array

TEXT = """
@triton.jit
def cell(x):
    at = tl.arange(0, 64)
    tl.store(x + at, tl.load(x + at) + 1.0)
"""

linecache.cache["<cell 1>"] = (len(TEXT), None, TEXT.splitlines(True), "<cell 1>")
exec(compile(TEXT, "<cell 1>", "exec"))
x = Array(np.ones(64, np.float32))
globals()["cell"][(1,)](x)
print("right" if (x.read() == 2).all() else "wrong")
