"""Launches one small kernel many times. usage: many_launches.py COUNT [--no-gpu]

Prints the processor time of a launch on this thread, in ns: the smallest of ten parts. --no-gpu: no driver.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import triton
import triton.language as tl
from arrays import Array


@triton.jit
def tiny_kernel(x, step, SIZE: tl.constexpr):
    tl.store(x + tl.arange(0, SIZE), step)


x = Array(np.zeros(64, np.float32))
count = int(sys.argv[1])
made = tiny_kernel[(1,)](x, 0.5, SIZE=64)
if "--no-gpu" in sys.argv:
    made._run = lambda *_arguments: None
taken = []
for _part in range(10):
    begin = time.thread_time_ns()
    for step in range(count // 10):
        tiny_kernel[(1,)](x, step + 0.5, SIZE=64)
    taken.append((time.thread_time_ns() - begin) / (count // 10))
x.read()
print("ns_per_launch", round(min(taken)))
