"""Kernels of libraries in Python on CUDA, and their edits. The tests on a GPU have the same list."""

from __future__ import annotations

from dataclasses import dataclass

from edits import Edit, Kernel

# PyTorch's attention by each of its libraries, and part of the kernel's name.
ATTENTION = {
    "flash": "flash_fwd_kernel",
    "efficient": "fmha_cutlassF",
    "cudnn": "cudnn_generated",
    "flash-backward": "flash_bwd_dq_dk_dv",
}
MOST_KERNELS = 15  # of a training step, which has more than forty: each takes six seconds
XLA = {
    "loop_add_fusion": "exp(x) * y + x",
    "triton_softmax": "softmax(x), which XLA gives to Triton",
    "loop_reduce_window": "cumsum(x)",
}


@dataclass(frozen=True)
class Compiled:
    """A kernel of FlashInfer, the folder in which FlashInfer compiles it, and the header that defines it."""

    kernel: Kernel
    build: str
    header: str


FLASHINFER = (
    Compiled(
        Kernel(
            key="flashinfer-rmsnorm",
            pattern="RMSNormKernel",
            file="kernel_variant.cu",
            program="flashinfer-rmsnorm",
            operator="norm.rmsnorm",
            right=Edit(
                "do not unroll the loop over a vector", "RMSNormKernel(",
                "#pragma unroll\n    for (uint32_t j = 0; j < VEC_SIZE; j++) {\n      sum_sq",
                "#pragma unroll 1\n    for (uint32_t j = 0; j < VEC_SIZE; j++) {\n      sum_sq",
            ),
            wrong=Edit("another epsilon", "RMSNormKernel(", "/ float(d) + eps", "/ float(d) + 1.0f"),
        ),
        build="norm",
        header="norm.cuh",
    ),
    Compiled(
        Kernel(
            key="flashinfer-silu",
            pattern="act_and_mul_kernel",
            file="kernel_variant.cu",
            program="flashinfer-silu",
            operator="silu_and_mul",
            right=Edit(
                "unroll the loop over vectors by a factor of 2", "act_and_mul_kernel(",
                "#pragma unroll 1\n  for (uint32_t idx", "#pragma unroll 2\n  for (uint32_t idx",
            ),
            wrong=Edit(
                "add instead of multiplying", "act_and_mul_kernel(", "Activation(x_vec[i]) * y_vec[i]",
                "Activation(x_vec[i]) + y_vec[i]",
            ),
        ),
        build="silu_and_mul",
        header="activation.cuh",
    ),
    Compiled(
        Kernel(
            key="flashinfer-decode",
            pattern="SingleDecodeWithKVCacheKernel",
            file="kernel_variant.cu",
            program="flashinfer-decode",
            operator="single_decode_with_kv_cache",
            right=Edit(
                "do not unroll", "void SingleDecodeWithKVCacheKernel(", "#pragma unroll 2", "#pragma unroll 1"
            ),
            wrong=Edit(
                "store twice the output", "void SingleDecodeWithKVCacheKernel(", "/*scale=*/1.0f);",
                "/*scale=*/1.0f) * 2;",
            ),
        ),
        build="single_decode*",
        header="decode.cuh",
    ),
)  # fmt: skip

COMPILED = Kernel(
    key="torch.compile",
    pattern="triton_",
    file="kernel_variant.py",
    program="compiled",
    operator="relu(sin(x) * y + 1).sum(dim=1)",
    right=Edit("multiply by one", "def triton_", "sin(", "sin(1.0 * "),
    wrong=Edit("take the cosine for the sine", "def triton_", "sin(", "cos("),
)

# The kernel of Reduce.cuh, as the operator of reductions.cu instantiates it for sums of single precision.
REDUCTION = Kernel(
    key="reduce_kernel",
    pattern="reductions::add<float",
    file="kernel_variant.cu",
    program="reductions",
    operator="sums of rows, single precision",
    right=Edit(
        "unroll the loop over a thread's vectors by a factor of {n}",
        after="arg_t input_vectorized_thread_reduce_impl(",
        old="    while (idx * input_vec_size + input_vec_size - 1 < end) {",
        new="    #pragma unroll {n}\n    while (idx * input_vec_size + input_vec_size - 1 < end) {",
        values=(2, 3, 4),
    ),
    wrong=Edit(
        "leave out the last step of each warp's sum",
        after="block_x_reduce(",
        old="for (int offset = dim_x >> 1; offset > 0; offset >>= 1)",
        new="for (int offset = dim_x >> 1; offset > 1; offset >>= 1)",
    ),
)
