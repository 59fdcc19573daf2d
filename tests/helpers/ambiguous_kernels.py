"""Kernels that stand in a source several times over, and where in it each is marked by a comment."""

from __future__ import annotations

import re

AMBIGUOUS = """template <typename T> __global__ void spec(T* x) { x[threadIdx.x] = 3; }  // spec<float>
template <> __global__ void spec<double>(double* x) { x[threadIdx.x] = 4; }  // spec<double>
template __global__ void spec<float>(float*);
__global__ void over(float* x) { x[threadIdx.x] = 5; }                    // over(float*)
__global__ void over(double* x) { x[threadIdx.x] = 6; }                   // over(double*)
#ifdef ALT
__global__ void branchy(float* x) { x[threadIdx.x] = 7; }
#else
__global__ void branchy(float* x) { x[threadIdx.x] = 8; }                 // branchy
#endif
"""
SYMBOLS = {
    "spec<float>": "_Z4specIfEvPT_",
    "spec<double>": "_Z4specIdEvPT_",
    "over(float*)": "_Z4overPf",
    "over(double*)": "_Z4overPd",
    "branchy": "_Z7branchyPf",
}


def marked_line(source: str, mark: str) -> int:
    """Return the number of the line whose comment has ``mark`` among its words, from 1."""
    return next(
        number
        for number, line in enumerate(source.splitlines(), start=1)
        if mark in re.split(r", ", line.partition("//")[2].strip())
    )
