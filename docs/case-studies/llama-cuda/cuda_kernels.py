"""The kernels of the study for HIP. Some have other right edits: ones that change what nvcc makes."""

from __future__ import annotations

from dataclasses import replace

from edits import Edit
from kernels import KERNELS as HIP_KERNELS

RIGHT = {
    # For __launch_bounds__, which the study for HIP edits, nvcc makes the same instructions.
    "rope": Edit(
        "leave out columns from {n} on, of which there are none",
        after="static __global__ void rope_norm(",
        old="if (i0 >= ne0) {",
        new="if (i0 >= ne0 || i0 >= {n}) {",
        values=(4096, 8192, 16384, 32768, 65536, 131072),
    ),
    # Tensor cores multiply here, so vec_dot_q4_0_q8_1_dp4a is not compiled.
    "mul_mat_q": Edit(
        "unroll the loop that loads a tile of x by a factor of {n}",
        after="void load_tiles_q4_0(",
        old="#pragma unroll\n    for (int i0 = 0; i0 < mmq_y; i0 += nwarps) {",
        new="#pragma unroll {n}\n    for (int i0 = 0; i0 < mmq_y; i0 += nwarps) {",
        values=(8, 4, 2, 1, 3, 5),
    ),
}
# nvcc takes minutes for llama.cpp's whole unit if this loop is unrolled four times.
UNROLLED = {"mul_mat_vec_q": (3, 2, 4, 5)}


def _choose_right(key: str, right: Edit) -> Edit:
    return RIGHT.get(key) or replace(right, values=UNROLLED.get(key, right.values))


# One measured build of each: without ccache the build that puts the source back compiles all again.
KERNELS = tuple(replace(each, builds=1, right=_choose_right(each.key, each.right)) for each in HIP_KERNELS)
