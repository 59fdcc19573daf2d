"""The kernels of the study on Composable Kernel and hipCUB, with their edits. Files are in include/."""

from __future__ import annotations

from edits import Edit, Kernel

GRID = "ck/tensor_operation/gpu/grid"

KERNELS = (
    Kernel(
        key="gemm",
        pattern="kernel_gemm_xdl_cshuffle_v1<",
        file=f"{GRID}/gridwise_gemm_xdl_cshuffle_v1.hpp",
        program="gemm",
        right=Edit(
            "promise the compiler work-groups of at most {n}",
            after="template <typename GridwiseGemm, bool HasMainKBlockLoop>",
            old="__launch_bounds__(CK_MAX_THREAD_PER_BLOCK,",
            new="__launch_bounds__({n},",
            values=(320, 384, 448, 512),
        ),
        wrong=Edit(
            "leave out the last block along K",
            after="const index_t num_k_block_main_loop",
            old="KPerBlock);",
            new="KPerBlock - 1);",
        ),
    ),
    Kernel(
        key="reduce",
        pattern="kernel_reduce_multiblock<",
        file=f"{GRID}/gridwise_2d_reduction_multiblock.hpp",
        program="reduce",
        right=Edit(
            "promise the compiler work-groups of at most {n}",
            after="typename AccElementwiseOperation>",
            old="__global__ void kernel_reduce_multiblock(",
            new="__global__ void __launch_bounds__({n}) kernel_reduce_multiblock(",
            values=(256, 320, 384, 448),
        ),
        wrong=Edit(
            "leave out the last tile of each row",
            after="__device__ static void Run(",
            old="while(reducedTiles < num_k_block_tile_iteration)",
            new="while(reducedTiles < num_k_block_tile_iteration - 1)",
        ),
    ),
    Kernel(
        key="attention",
        pattern="kentry<",
        file="ck_tile/ops/fmha/pipeline/block_fmha_pipeline_qr_ks_vs.hpp",
        program="attention",
        builds=2,
        right=Edit(
            "give wavefronts priority {n} for the softmax",
            after="// STAGE 1, QK gemm",
            old="// STAGE 2,",
            new="__builtin_amdgcn_s_setprio({n}); // STAGE 2,",
            values=(0, 1, 2, 3),
        ),
        wrong=Edit(
            "keep sums as they are when a larger score is found",
            after="// STAGE 2,",
            old="o_acc(i_j_idx) *= tmp;",
            new="",
        ),
    ),
    Kernel(
        key="sort",
        pattern="radix_sort_block_sort_kernel<",
        file="rocprim/device/specialization/device_radix_block_sort.hpp",
        program="sort",
        right=Edit(
            "promise the compiler work-groups of at most {n}",
            after="ROCPRIM_KERNEL",
            old="__launch_bounds__(device_params<Config>().block_size)",
            new="__launch_bounds__({n})",
            values=(320, 384, 448, 512),
        ),
        wrong=Edit(
            "leave out the highest bit of the keys",
            after="sort_single<",
            old="current_radix_bits);",
            new="current_radix_bits - 1);",
        ),
    ),
    Kernel(
        key="sort_single",
        pattern="radix_sort_block_sort_kernel<",
        file="rocprim/device/detail/device_radix_sort.hpp",
        program="sort",
        right=Edit(
            "give wavefronts priority {n} for the sort",
            after="void sort_single(",
            old="sort_warp_striped_to_striped<Descending>(",
            new="__builtin_amdgcn_s_setprio({n}); sort_warp_striped_to_striped<Descending>(",
            values=(0, 1, 2, 3),
        ),
        wrong=Edit(
            "leave out the highest bit of the keys",
            after="void sort_single(",
            old="bit + current_radix_bits);",
            new="bit + current_radix_bits - 1);",
        ),
    ),
)
