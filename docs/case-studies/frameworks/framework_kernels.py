"""The kernels of the study, and the edits of each. Those of CuPy are the same for hipRTC and for NVRTC."""

from __future__ import annotations

from edits import Edit, Kernel

FILE = "kernel_variant"  # the project's file; its ending is the compiler's

CUPY = (
    Kernel(
        key="softmax_rows",
        pattern="softmax_rows",
        file=FILE,
        program="cupy",
        operator="RawKernel",
        right=Edit(
            "multiply by one", after="y[blockIdx.x", old="expf(row[i] - most) / partial[0]",
            new="(1.0f * expf(row[i] - most)) / partial[0]",
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
            "write the bound of the loop otherwise", after="T total", old="i <= at + RADIUS",
            new="i < at + RADIUS + 1",
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
        right=Edit("multiply by one", after="out0_type out0;", old="exp(in0)", new="exp(1.0f * in0)"),
        wrong=Edit("add one", after="out0_type out0;", old="exp(in0)", new="exp(in0) + 1"),
    ),
    Kernel(
        key="sum",
        pattern="cupy_sum",
        file=FILE,
        program="cupy",
        operator="sum(axis=1), a reduction",
        right=Edit("swap the addends", after="#define REDUCE", old="(a + b)", new="(b + a)"),
        wrong=Edit("subtract", after="#define REDUCE", old="(a + b)", new="(a - b)"),
    ),
    Kernel(
        key="gelu",
        pattern="gelu",
        file=FILE,
        program="cupy",
        operator="cupy.fuse",
        right=Edit("swap the factors", after="cupy_multiply", old="in0 * in1", new="in1 * in0"),
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
