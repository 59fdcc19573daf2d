"""The kernels of the study on llama.cpp, and the edits of each. Files are in ggml/src/ggml-cuda."""

from __future__ import annotations

from edits import Edit, Kernel

KERNELS = (
    Kernel(
        key="mul_mat_vec_q",
        pattern="mul_mat_vec_q<",
        file="mmvq.cu",
        operator="MUL_MAT",
        program="plain",
        builds=2,
        right=Edit(
            "unroll the loop over blocks by a factor of {n}",
            after="static __global__ void mul_mat_vec_q(",
            old="    for (int kbx = tid",
            new="#pragma unroll {n}\n    for (int kbx = tid",
            values=(2, 4, 3, 5, 6, 7),
        ),
        wrong=Edit(
            "leave out the last block of each row",
            after="static __global__ void mul_mat_vec_q(",
            old="kbx < blocks_per_row_x;",
            new="kbx < blocks_per_row_x - 1;",
        ),
    ),
    Kernel(
        key="rms_norm",
        pattern="rms_norm_f32<",
        file="norm.cu",
        operator="RMS_NORM",
        program="plain",
        right=Edit(
            "unroll the loop that sums squares by a factor of {n}",
            after="static __global__ void rms_norm_f32(",
            old="    for (int col = tid;",
            new="#pragma unroll {n}\n    for (int col = tid;",
            values=(2, 4, 3, 5, 6, 8),
        ),
        wrong=Edit(
            "leave out the small number below the root",
            after="static __global__ void rms_norm_f32(",
            old="rsqrtf(mean + eps)",
            new="rsqrtf(mean)",
        ),
    ),
    Kernel(
        key="rope",
        pattern="rope_norm<",
        file="rope.cu",
        operator="ROPE",
        program="plain",
        right=Edit(
            "promise the compiler work-groups of at most {n}",
            after="template<bool forward, bool has_ff, typename T>",
            old="static __global__ void rope_norm(",
            new="static __global__ void __launch_bounds__({n}) rope_norm(",
            values=(256, 320, 384, 448, 512, 576),
        ),
        wrong=Edit(
            "turn the other way",
            after="static __global__ void rope_norm(",
            old="x0*cos_theta - x1*sin_theta",
            new="x0*cos_theta + x1*sin_theta",
        ),
    ),
    Kernel(
        key="soft_max",
        pattern="soft_max_f32<",
        file="softmax.cu",
        operator="SOFT_MAX",
        program="plain",
        right=Edit(
            "unroll the loop that adds exponentials by a factor of {n}",
            after="float tmp = 0.0f; // partial sum",
            old="#pragma unroll",
            new="#pragma unroll {n}",
            values=(2, 1, 3, 4, 5, 6),
        ),
        wrong=Edit(
            "do not subtract the largest value",
            after="static __global__ void soft_max_f32(",
            old="expf(vals[col] - max_val)",
            new="expf(vals[col])",
        ),
    ),
    Kernel(
        key="flash_attn",
        pattern="flash_attn_vec_ext_f32<",
        file="fattn-vec-f32.cuh",
        operator="FLASH_ATTN_EXT",
        right=Edit(
            "unroll the loop over rows of V by a factor of {n}",
            after="static __global__ void flash_attn_vec_ext_f32(",
            old="#pragma unroll\n        for (int k = 0; k < D; ++k) {",
            new="#pragma unroll {n}\n        for (int k = 0; k < D; ++k) {",
            values=(8, 4, 16, 2, 32, 1),
        ),
        wrong=Edit(
            "forget the mask",
            after="static __global__ void flash_attn_vec_ext_f32(",
            old="sum += mask ? slope*__half2float(maskh[j*ne11 + k_VKQ_0 + i_KQ]) : 0.0f;",
            new="",
        ),
        program="flash",
        builds=1,  # of six units
    ),
    Kernel(
        key="mul_mat_q",
        pattern="mul_mat_q<",
        file="mmq.cuh",
        operator="MUL_MAT",
        program="plain",
        builds=1,  # of 22 units
        right=Edit(
            "unroll the loop over the tile's columns by a factor of {n}",
            after="void vec_dot_q4_0_q8_1_dp4a(",
            old="// #pragma unroll",
            new="#pragma unroll {n}",
            values=(2, 4, 1, 3, 8, 5),
        ),
        wrong=Edit(
            "multiply the first half of the tile twice",
            after="void mul_mat_q_process_tile(",
            old="vec_dot(tile_x, tile_y, sum, WARP_SIZE);",
            new="vec_dot(tile_x, tile_y, sum, 0);",
        ),
    ),
)
