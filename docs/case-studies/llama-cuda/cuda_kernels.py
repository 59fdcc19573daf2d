"""The kernels of the study, and the edits of each: some of those of the study for HIP."""

from __future__ import annotations

from dataclasses import replace

from kernels import KERNELS as HIP_KERNELS

NAMES = ("mul_mat_vec_q", "rms_norm", "soft_max")
# nvcc takes minutes for llama.cpp's whole unit if this loop is unrolled four times.
UNROLLED = {"mul_mat_vec_q": (3, 2, 4, 5)}

# One measured build of each: without ccache the build that puts the source back compiles all again.
KERNELS = tuple(
    replace(
        kernel,
        builds=1,
        right=replace(kernel.right, values=UNROLLED.get(kernel.key, kernel.right.values)),
    )
    for kernel in HIP_KERNELS
    if kernel.key in NAMES
)
