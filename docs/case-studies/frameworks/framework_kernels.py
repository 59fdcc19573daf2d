"""The kernels of the study, and the edits of each. Those of CuPy are the same for hipRTC and for NVRTC."""

from __future__ import annotations

from edits import Edit, Kernel

FILE = "kernel_variant"  # the project's file; its ending is the compiler's

# Of the loop that CuPy puts around each element-wise expression.
UNROLL = Edit(
    "unroll the loop over elements by a factor of 2", after="__global__", old="#pragma unroll 1",
    new="#pragma unroll 2",
)  # fmt: skip

CUPY = (
    Kernel(
        key="softmax_rows",
        pattern="softmax_rows",
        file=FILE,
        program="cupy",
        operator="RawKernel",
        right=Edit(
            "unroll the last loop by a factor of 2", after="float total",
            old="for (int i = threadIdx.x; i < width; i += blockDim.x) {",
            new="#pragma unroll 2\n    for (int i = threadIdx.x; i < width; i += blockDim.x) {",
        ),
        wrong=Edit(
            "leave out half of each sum", after="float total",
            old="partial[threadIdx.x] += partial[threadIdx.x + step]",
            new="partial[threadIdx.x] += 0",
        ),
    ),
    Kernel(
        key="smooth",
        pattern="smooth<",
        file=FILE,
        program="cupy",
        operator="RawModule, a template",
        right=Edit(
            "do not unroll the loop", after="T total", old="for (int i = at - RADIUS",
            new="#pragma unroll 1\n    for (int i = at - RADIUS",
        ),
        wrong=Edit(
            "leave out the last element of the window", after="T total", old="i <= at + RADIUS",
            new="i < at + RADIUS",
        ),
    ),
    Kernel(
        key="exp",
        pattern="cupy_exp",
        file=FILE,
        program="cupy",
        operator="cupy.exp, an element-wise kernel",
        right=UNROLL,
        wrong=Edit("add one", after="out0_type out0;", old="exp(in0)", new="exp(in0) + 1"),
    ),
    Kernel(
        key="sum",
        pattern="cupy_sum",
        file=FILE,
        program="cupy",
        operator="sum(axis=1), a reduction",
        right=Edit(
            "unroll the loop over a thread's elements by a factor of 2", after="#define REDUCE",
            old="for (ptrdiff_t _j = _i + _j_offset;",
            new="#pragma unroll 2\n    for (ptrdiff_t _j = _i + _j_offset;",
        ),
        wrong=Edit("subtract", after="#define REDUCE", old="(a + b)", new="(a - b)"),
    ),
    Kernel(
        key="gelu",
        pattern="gelu",
        file=FILE,
        program="cupy",
        operator="cupy.fuse",
        right=UNROLL,
        wrong=Edit("subtract", after="cupy_add", old="in0 + in1", new="in0 - in1"),
    ),
)  # fmt: skip

# Of XLA's kernels there is no source: what is edited are instructions of gfx90a.
INSTRUCTIONS = "kernel_variant.s"
START = "kc_kernel:\n"
NO_OPERATION = Edit("begin with an instruction that does nothing", "\t.text", START, f"{START}\ts_nop 0\n")
SUBTRACT = Edit("subtract where it first adds", START, "v_add_f32", "v_sub_f32")

JAX = (
    Kernel(
        key="loop_add_fusion",
        pattern="loop_add_fusion",
        file=INSTRUCTIONS,
        program="jax",
        operator="exp(x) * y + x",
        right=NO_OPERATION,
        wrong=Edit("end at once", "\t.text", START, f"{START}\ts_endpgm\n"),
    ),
    Kernel(
        key="triton_softmax",
        pattern="triton_softmax",
        file=INSTRUCTIONS,
        program="jax",
        operator="softmax(x), which XLA gives to Triton",
        right=NO_OPERATION,
        wrong=SUBTRACT,
    ),
    Kernel(
        key="loop_reduce_window",
        pattern="loop_reduce_window",
        file=INSTRUCTIONS,
        program="jax",
        operator="cumsum(x)",
        right=NO_OPERATION,
        wrong=SUBTRACT,
    ),
)
