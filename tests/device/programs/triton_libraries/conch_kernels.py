"""Call each operator of conch-triton-kernels 1.3 once; not named conch.py, which would hide the library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calls import ints, main, rand

if TYPE_CHECKING:
    import torch


def silu_and_mul() -> None:
    from conch.ops.activation.silu_and_mul import silu_and_mul as operator

    operator(rand(128, 1024, dtype="float16"))


def gelu_tanh_and_mul() -> None:
    from conch.ops.activation.gelu_tanh_and_mul import gelu_tanh_and_mul as operator

    operator(rand(128, 1024, dtype="float32"))  # libdevice has no tanh of float16


def paged_attention() -> None:
    from conch.ops.attention.paged_attention import paged_attention as operator

    key_cache, value_cache, block_table, lengths = _paged_cache()
    operator(rand(2, 4, 64, dtype="float16"), key_cache, value_cache, block_table, lengths)


def paged_attention_softcap() -> None:
    from conch.ops.attention.paged_attention import paged_attention as operator

    key_cache, value_cache, block_table, lengths = _paged_cache()
    operator(rand(2, 4, 64, dtype="float16"), key_cache, value_cache, block_table, lengths, softcap=30.0)


def paged_attention_fp8() -> None:
    import torch
    from conch.ops.attention.paged_attention import paged_attention as operator

    key_cache, value_cache, block_table, lengths = _paged_cache()
    key_cache, value_cache = (
        cache.to(torch.float8_e4m3fn).view(torch.uint8) for cache in (key_cache, value_cache)
    )
    scale = torch.ones(1, device="cuda")
    query = rand(2, 4, 64, dtype="float16")
    operator(
        query,
        key_cache,
        value_cache,
        block_table,
        lengths,
        kv_cache_dtype="fp8",
        k_scale=scale,
        v_scale=scale,
    )


def varlen_attention() -> None:
    from conch.ops.attention.varlen_attention import varlen_attention as operator

    key_cache, value_cache, block_table, lengths = _paged_cache()
    query, starts = rand(48, 4, 64, dtype="float16"), _int32(0, 32, 48)
    operator(query, key_cache, value_cache, starts, 32, lengths, 256, block_table, causal=True, strict=True)


def varlen_attention_softcap() -> None:
    from conch.ops.attention.varlen_attention import varlen_attention as operator

    key_cache, value_cache, block_table, lengths = _paged_cache()
    query, starts = rand(48, 4, 64, dtype="float16"), _int32(0, 32, 48)
    operator(query, key_cache, value_cache, starts, 32, lengths, 256, block_table, softcap=30.0)


def varlen_attention_splits() -> None:
    """One query for each sequence and at least 4096 keys: several programs share the keys."""
    import torch
    from conch.ops.attention.varlen_attention import varlen_attention as operator

    key_cache, value_cache = (rand(128, 32, 1, 64, dtype="float16") for _ in range(2))
    block_table = torch.arange(128, device="cuda", dtype=torch.int32).reshape(1, 128)
    query = rand(1, 4, 64, dtype="float16")
    operator(
        query,
        key_cache,
        value_cache,
        _int32(0, 1),
        1,
        _int32(4096),
        4096,
        block_table,
        causal=True,
        strict=True,
    )


def unified_attention() -> None:
    import torch
    from conch.third_party.vllm.unified_attention import unified_attention as operator

    key_cache, value_cache, block_table, lengths = _paged_cache()
    query, starts = rand(48, 4, 64, dtype="float16"), _int32(0, 32, 48)
    rest = (starts, 32, lengths, 256, 0.125, True, (-1, -1), block_table, 0.0, None, None, None)
    operator(query, key_cache, value_cache, torch.empty_like(query), *rest)


def unified_attention_window() -> None:
    import torch
    from conch.third_party.vllm.unified_attention import unified_attention as operator

    key_cache, value_cache, block_table, lengths = _paged_cache()
    query, starts = rand(48, 4, 64, dtype="float16"), _int32(0, 32, 48)
    rest = (starts, 32, lengths, 256, 0.125, True, (63, 0), block_table, 30.0, None, None, None)
    slopes = rand(4, dtype="float32").abs()
    operator(query, key_cache, value_cache, torch.empty_like(query), *rest, alibi_slopes=slopes)


def _int32(*values: int) -> torch.Tensor:
    import torch

    return torch.tensor(values, device="cuda", dtype=torch.int32)


def _paged_cache() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return keys and values in 32 blocks of 16 entries, the block table and lengths of 2 sequences."""
    import torch

    key_cache, value_cache = (rand(32, 16, 2, 64, dtype="float16") for _ in range(2))
    block_table = torch.randperm(32, device="cuda").to(torch.int32).reshape(2, 16)
    return key_cache, value_cache, block_table, _int32(256, 200)


def rotary_embedding() -> None:
    from conch.ops.embedding.rotary_embedding import rotary_embedding as operator

    query, key = rand(64, 256, dtype="float16"), rand(64, 128, dtype="float16")
    operator(ints(512, 64), query, key, 64, rand(512, 64, dtype="float16"))


def gemma_rms_norm() -> None:
    from conch.ops.normalization.gemma_rms_norm import gemma_rms_norm as operator

    x, residual = rand(128, 256, dtype="float16"), rand(128, 256, dtype="float16")
    operator(x, rand(256, dtype="float16"), 1e-6, residual)


def rms_norm() -> None:
    from conch.ops.normalization.rms_norm import rms_norm as operator

    operator(rand(128, 256, dtype="float16"), rand(256, dtype="float16"), 1e-6)


def fused_add_rms_norm() -> None:
    from conch.ops.normalization.rms_norm import fused_add_rms_norm as operator

    x, residual = rand(128, 256, dtype="float16"), rand(128, 256, dtype="float16")
    operator(x, residual, rand(256, dtype="float16"), 1e-6)


def bitsandbytes_nf4() -> None:
    from conch.ops.quantization.bitsandbytes.functional import dequantize_4bit, quantize_4bit

    quantized, state = quantize_4bit(rand(16384, dtype="float16"), quant_type="nf4")
    dequantize_4bit(quantized, state, quant_type="nf4")


def bitsandbytes_fp4_compressed() -> None:
    """Also quantize the scales of the blocks, to 8 bits."""
    from conch.ops.quantization.bitsandbytes.functional import dequantize_4bit, quantize_4bit

    quantized, state = quantize_4bit(rand(32768, dtype="float16"), quant_type="fp4", compress_statistics=True)
    dequantize_4bit(quantized, state, quant_type="fp4")


def scaled_fp8_quant() -> None:
    import torch
    from conch.ops.quantization.fp8 import scaled_fp8_quant as operator

    operator(rand(128, 512, dtype="float16"), torch.full((1,), 0.5, device="cuda"))


def scaled_int8_quant() -> None:
    import torch
    from conch.ops.quantization.int8 import scaled_int8_quant as operator

    operator(rand(128, 512, dtype="float16"), torch.full((1,), 0.05, device="cuda"))


def mixed_precision_gemm() -> None:
    from conch.ops.quantization.gemm import mixed_precision_gemm as operator

    x, weight = rand(128, 256, dtype="float16"), ints(2**31 - 1, 32, 256, dtype="int32")
    operator(x, weight, rand(2, 256, dtype="float16"), None, 4, 8, 128, strict=True)


def mixed_precision_gemm_zeros() -> None:
    from conch.ops.quantization.gemm import mixed_precision_gemm as operator

    x, weight = rand(128, 256, dtype="float16"), ints(2**31 - 1, 64, 256, dtype="int32")
    zeros = ints(256, 2, 256, dtype="int32")
    operator(x, weight, rand(2, 256, dtype="float16"), zeros, 8, 0, 128, strict=True)


def scaled_gemm_int8() -> None:
    import torch
    from conch.ops.quantization.gemm import scaled_gemm as operator

    a, b = ints(128, 128, 256, low=-128, dtype="int8"), ints(128, 256, 256, low=-128, dtype="int8")
    operator(a, b, rand(128, 1, dtype="float32"), rand(256, 1, dtype="float32"), torch.float16)


def scaled_gemm_fp8() -> None:
    import torch
    from conch.ops.quantization.gemm import scaled_gemm as operator

    a, b = rand(128, 256, dtype="float8_e4m3fn"), rand(256, 256, dtype="float8_e4m3fn")
    one = torch.ones(1, device="cuda")
    operator(a, b, one, one, torch.float16)


def bev_pool() -> None:
    import torch
    from conch.ops.vision.bev_pool import bev_pool as operator
    from conch.ops.vision.bev_pool import bev_pool_backward

    cells = torch.arange(64, device="cuda", dtype=torch.int32)
    zeros = torch.zeros_like(cells)
    geometry = torch.stack([cells // 8, cells % 8, zeros, zeros], dim=1).repeat_interleave(8, dim=0)
    intervals = (cells * 8, torch.full_like(cells, 8))
    out = operator(rand(512, 64, dtype="float32"), geometry, *intervals, 1, 1, 8, 8)
    bev_pool_backward(torch.randn_like(out), geometry, *intervals)


def nms() -> None:
    import torch
    from conch.ops.vision.nms import nms as operator

    corners = torch.rand(256, 2, device="cuda") * 100
    boxes = torch.cat([corners, corners + 1 + torch.rand(256, 2, device="cuda") * 30], dim=1)
    operator(boxes, torch.rand(256, device="cuda"), 0.5)


def generate_voxels() -> None:
    import torch
    from conch.ops.vision.voxelization import VoxelizationParameter
    from conch.ops.vision.voxelization import generate_voxels as operator

    space = VoxelizationParameter((0.0, 0.0, 0.0), (8.0, 8.0, 4.0), (0.5, 0.5, 1.0), 8)
    operator(torch.rand(2048, 4, device="cuda") * 8, space)


def copy_blocks() -> None:
    import torch
    from conch.ops.vllm.copy_blocks import copy_blocks as operator

    key_caches = [rand(16, 2048, dtype="float16") for _ in range(2)]
    value_caches = [rand(16, 2048, dtype="float16") for _ in range(2)]
    operator(key_caches, value_caches, torch.tensor([[0, 8], [1, 9], [2, 10]], device="cuda"))


def reshape_and_cache() -> None:
    import torch
    from conch.ops.vllm.reshape_and_cache import reshape_and_cache as operator

    key, value = rand(64, 2, 64, dtype="float16"), rand(64, 2, 64, dtype="float16")
    key_cache, value_cache = (
        torch.zeros(16, 16, 2, 64, device="cuda", dtype=torch.float16) for _ in range(2)
    )
    operator(key, value, key_cache, value_cache, torch.randperm(256, device="cuda")[:64], strict=True)


def reshape_and_cache_fp8() -> None:
    import torch
    from conch.ops.vllm.reshape_and_cache import reshape_and_cache as operator

    key, value = rand(64, 2, 64, dtype="float16"), rand(64, 2, 64, dtype="float16")
    zeros = torch.zeros(16, 16, 2, 64, device="cuda")
    key_cache, value_cache = (zeros.to(torch.float8_e4m3fn) for _ in range(2))
    scale = torch.ones(1, device="cuda")
    slots = torch.randperm(256, device="cuda")[:64]
    operator(key, value, key_cache, value_cache, slots, "fp8", scale, scale)


if __name__ == "__main__":
    main(globals())

# Not reached: the kernel of conch/reference/vision/voxelization.py, a reference for tests. Of the helpers
# inside kernels, _linear_tile: no launcher of the library selects it.
