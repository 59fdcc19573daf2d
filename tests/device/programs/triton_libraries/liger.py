"""Call each Triton operator of liger-kernel 0.8.5 once; long because it has many."""

import os

from calls import backward, ints, main, rand

# Otherwise each kernel of the mixture of experts tries up to 40 configurations. liger reads it when imported.
os.environ.setdefault("LIGER_FUSED_MOE_AUTOTUNE", "0")


def attn_res() -> None:
    from liger_kernel.ops import LigerAttnResFunction

    blocks = rand(4, 2, 64, 256, grad=True)
    query, norm = rand(256, grad=True), rand(256, grad=True)
    backward(LigerAttnResFunction.apply(blocks, query, norm, 1e-6))


def cross_entropy() -> None:
    from liger_kernel.ops import LigerCrossEntropyFunction

    logits = rand(128, 1024, grad=True)
    loss, *_ = LigerCrossEntropyFunction.apply(logits, ints(1024, 128), None)
    backward(loss)


def cross_entropy_options() -> None:
    from liger_kernel.ops import LigerCrossEntropyFunction

    logits = rand(128, 1024, dtype="float32", grad=True)
    target = ints(1024, 128)
    target[::7] = -100
    weight = rand(1024, dtype="float32").abs()
    loss, *_ = LigerCrossEntropyFunction.apply(
        logits, target, weight, -100, 1e-4, 0.1, "mean", 30.0, True, True, True
    )
    backward(loss)


def cross_entropy_no_reduction() -> None:
    from liger_kernel.ops import LigerCrossEntropyFunction

    logits = rand(128, 1024, grad=True)
    loss, *_ = LigerCrossEntropyFunction.apply(logits, ints(1024, 128), None, -100, 0.0, 0.0, "none")
    backward(loss)


def cross_entropy_without_gradient() -> None:
    from liger_kernel.ops import LigerCrossEntropyFunction

    LigerCrossEntropyFunction.apply(rand(128, 1024), ints(1024, 128), None)


def dyt() -> None:
    from liger_kernel.ops import LigerDyTFunction

    x, alpha = rand(2, 64, 512, grad=True), rand(1, grad=True)
    gamma, beta = rand(512, grad=True), rand(512, grad=True)
    backward(LigerDyTFunction.apply(x, alpha, gamma, beta))


def dyt_without_beta() -> None:
    from liger_kernel.ops import LigerDyTFunction

    x, alpha, gamma = rand(2, 64, 512, grad=True), rand(1, grad=True), rand(512, grad=True)
    backward(LigerDyTFunction.apply(x, alpha, gamma, None))


def embedding() -> None:
    from liger_kernel.ops import LigerEmbeddingFunction

    table = rand(512, 256, dtype="float32", grad=True)
    backward(LigerEmbeddingFunction.apply(table, ints(512, 4, 32)))


def fused_add_rms_norm() -> None:
    from liger_kernel.ops import LigerFusedAddRMSNormFunction

    x, residual, weight = rand(4, 64, 256, grad=True), rand(4, 64, 256, grad=True), rand(256, grad=True)
    backward(*LigerFusedAddRMSNormFunction.apply(x, residual, weight, 1e-6, 0.0, "llama", False))


def fused_add_rms_norm_gemma() -> None:
    from liger_kernel.ops import LigerFusedAddRMSNormFunction

    x, residual, weight = rand(4, 64, 256, grad=True), rand(4, 64, 256, grad=True), rand(256, grad=True)
    backward(*LigerFusedAddRMSNormFunction.apply(x, residual, weight, 1e-6, 1.0, "gemma", False))


def fused_ce_tvd() -> None:
    from liger_kernel.ops import LigerFusedCETVDFunction

    student, teacher = rand(128, 1024, grad=True), rand(128, 1024)
    target = ints(1024, 128)
    target[::7] = -100
    backward(*LigerFusedCETVDFunction.apply(student, teacher, target, -100))


def fused_linear_cross_entropy() -> None:
    from liger_kernel.ops import LigerFusedLinearCrossEntropyFunction

    x, weight = rand(128, 256, grad=True), rand(1024, 256, grad=True, scale=0.05)
    bias = rand(1024, grad=True)
    loss, *_ = LigerFusedLinearCrossEntropyFunction.apply(x, weight, ints(1024, 128), bias)
    backward(loss)


def fused_linear_cross_entropy_no_reduction() -> None:
    from liger_kernel.ops import LigerFusedLinearCrossEntropyFunction

    x, weight = rand(128, 256, grad=True), rand(1024, 256, grad=True, scale=0.05)
    loss, *_ = LigerFusedLinearCrossEntropyFunction.apply(
        x, weight, ints(1024, 128), None, None, -100, 1e-4, 0.1, "none", 30.0
    )
    backward(loss)


def fused_linear_jsd() -> None:
    from liger_kernel.ops import LigerFusedLinearJSDFunction

    student, student_weight = rand(128, 256, grad=True), rand(1024, 256, grad=True, scale=0.05)
    teacher, teacher_weight = rand(128, 256), rand(1024, 256, scale=0.05)
    backward(LigerFusedLinearJSDFunction.apply(student, student_weight, teacher, teacher_weight))


def fused_linear_kl_div() -> None:
    from liger_kernel.ops import LigerFusedLinearKLDivFunction

    student, weight = rand(128, 256, grad=True), rand(1024, 256, grad=True, scale=0.05)
    target = rand(128, 1024, dtype="float32").softmax(-1)
    backward(LigerFusedLinearKLDivFunction.apply(student, weight, target))


def fused_linear_kl_div_labels() -> None:
    from liger_kernel.ops import LigerFusedLinearKLDivFunction

    student, weight = rand(128, 256, grad=True), rand(1024, 256, grad=True, scale=0.05)
    target = rand(128, 1024, dtype="float32").softmax(-1)
    labels = ints(1024, 128)
    labels[::7] = -100
    backward(LigerFusedLinearKLDivFunction.apply(student, weight, target, labels, "mean", -100, 2.0))


def fused_moe() -> None:
    from liger_kernel.ops import LigerFusedMoEFunction

    x = rand(128, 128, grad=True)
    gate_up = rand(4, 256, 128, grad=True, scale=0.1)
    down = rand(4, 128, 128, grad=True, scale=0.1)
    scores = rand(128, 4, dtype="float32").softmax(-1)
    weights, experts = scores.topk(2, dim=-1)
    weights = weights.bfloat16().requires_grad_()
    backward(LigerFusedMoEFunction.apply(x, gate_up, down, experts.int(), weights))


def fused_neighborhood_attention() -> None:
    from liger_kernel.ops import LigerFusedNeighborhoodAttentionFunction

    query, key, value = (rand(1, 2, 128, 64, dtype="float32", grad=True) for _ in range(3))
    backward(LigerFusedNeighborhoodAttentionFunction.apply(query, key, value, 7, 1))


def geglu() -> None:
    from liger_kernel.ops import LigerGELUMulFunction

    backward(LigerGELUMulFunction.apply(rand(2, 64, 512, grad=True), rand(2, 64, 512, grad=True)))


def group_norm() -> None:
    from liger_kernel.ops import LigerGroupNormFunction

    x = rand(4, 32, 512, dtype="float32", grad=True)
    weight, bias = rand(32, dtype="float32", grad=True), rand(32, dtype="float32", grad=True)
    backward(LigerGroupNormFunction.apply(x, weight, bias, 32, 8, 1e-6))


def grpo_loss() -> None:
    from liger_kernel.ops import GrpoLossFunction

    loss, *_ = GrpoLossFunction.apply(*_grpo_inputs(), 0.9, 0.04, 0.2, 0.4, False)
    backward(loss)


def grpo_loss_sapo() -> None:
    from liger_kernel.ops import GrpoLossFunction

    loss, *_ = GrpoLossFunction.apply(*_grpo_inputs(), 0.9, 0.04, 0.2, 0.4, False, "sapo")
    backward(loss)


def grpo_loss_cispo() -> None:
    from liger_kernel.ops import GrpoLossFunction

    loss, *_ = GrpoLossFunction.apply(*_grpo_inputs(), 0.9, 0.0, 0.2, 0.4, False, "cispo")
    backward(loss)


def grpo_loss_sequence() -> None:
    from liger_kernel.ops import GrpoLossFunction

    loss, *_ = GrpoLossFunction.apply(
        *_grpo_inputs(), 0.9, 0.04, 0.2, 0.4, False, "grpo", None, True, "sequence"
    )
    backward(loss)


def _grpo_inputs() -> tuple:
    """Return logits, two log-probabilities, ids, advantages and mask of 4 answers of 31 tokens."""
    import torch

    logits = rand(4, 32, 1024, grad=True)
    old_logp, ref_logp = (-rand(4, 31, dtype="float32").abs() for _ in range(2))
    mask = torch.ones(4, 31, device="cuda", dtype=torch.int32)
    mask[:, 24:] = 0
    return logits, old_logp, ref_logp, ints(1024, 4, 31), rand(4, dtype="float32"), mask


def jsd() -> None:
    from liger_kernel.ops import LigerJSDFunction

    student = rand(128, 1024, dtype="float32").log_softmax(-1).requires_grad_()
    teacher = rand(128, 1024, dtype="float32").log_softmax(-1)
    backward(LigerJSDFunction.apply(student, teacher, None, 0.5))


def jsd_labels() -> None:
    from liger_kernel.ops import LigerJSDFunction

    student = rand(128, 1024, dtype="float32").log_softmax(-1).requires_grad_()
    teacher = rand(128, 1024, dtype="float32").log_softmax(-1)
    labels = ints(1024, 128)
    labels[::7] = -100
    backward(LigerJSDFunction.apply(student, teacher, labels, 0.0))


def kl_div() -> None:
    from liger_kernel.ops import LigerKLDivLossFunction

    predicted = rand(128, 1024, dtype="float32").log_softmax(-1).requires_grad_()
    target = rand(128, 1024, dtype="float32").softmax(-1)
    backward(LigerKLDivLossFunction.apply(predicted, target, "batchmean", False))


def kl_div_log_target() -> None:
    from liger_kernel.ops import LigerKLDivLossFunction

    predicted = rand(128, 1024, dtype="float32").log_softmax(-1).requires_grad_()
    target = rand(128, 1024, dtype="float32").log_softmax(-1)
    backward(LigerKLDivLossFunction.apply(predicted, target, "none", True))


def layer_norm() -> None:
    from liger_kernel.ops import LigerLayerNormFunction

    x, weight, bias = rand(4, 64, 256, grad=True), rand(256, grad=True), rand(256, grad=True)
    backward(LigerLayerNormFunction.apply(x, weight, bias, 1e-6))


def llama4_rope() -> None:
    import torch
    from liger_kernel.ops import LigerLlama4RopeFunction

    query, key = (
        rand(2, 64, 4, 64, dtype="float32", grad=True),
        rand(2, 64, 2, 64, dtype="float32", grad=True),
    )
    angles = rand(64, 32, dtype="float32")
    freqs = torch.polar(torch.ones_like(angles), angles)
    backward(*LigerLlama4RopeFunction.apply(query * 1, key * 1, freqs))


def mhc_coeffs() -> None:
    import torch
    from liger_kernel.ops import LigerMHCCoeffsFunction

    x, phi = rand(2, 32, 4, 128, grad=True), rand(512, 24, grad=True, scale=0.02)
    bias = torch.zeros(24, device="cuda", requires_grad=True)
    alphas = [torch.tensor(1.0, device="cuda", requires_grad=True) for _ in range(3)]
    backward(*LigerMHCCoeffsFunction.apply(x, phi, bias, *alphas, False, 20, 1e-6, 1e-4, 1e-6, 2.0))


def mhc_sinkhorn_without_history() -> None:
    import torch
    from liger_kernel.ops.mhc import mhc_sinkhorn_bwd

    mix, bias, grad = (
        rand(64, 24, dtype="float32"),
        rand(24, dtype="float32"),
        rand(64, 4, 4, dtype="float32"),
    )
    mhc_sinkhorn_bwd(mix, bias, torch.tensor(1.0, device="cuda"), grad, tmax=20, sinkhorn_eps=1e-6)


def mhc_pre() -> None:
    from liger_kernel.ops import LigerMHCPreFunction

    x, h_pre = rand(2, 32, 4, 128, grad=True), rand(2, 32, 4, dtype="float32", grad=True)
    backward(LigerMHCPreFunction.apply(x, h_pre))


def mhc_post_res() -> None:
    from liger_kernel.ops import LigerMHCPostResFunction

    x, f_out = rand(2, 32, 4, 128, grad=True), rand(2, 32, 128, grad=True)
    h_post, h_res = rand(2, 32, 4, dtype="float32", grad=True), rand(2, 32, 4, 4, dtype="float32", grad=True)
    backward(LigerMHCPostResFunction.apply(x, f_out, h_post, h_res))


def mlp() -> None:
    from liger_kernel.ops import LigerMLPFunction

    x = rand(2, 128, 256, grad=True)
    gate, up, down = (rand(256, 256, grad=True, scale=0.05) for _ in range(3))
    backward(LigerMLPFunction.apply(x, gate, up, down))


def mlp_inference() -> None:
    from liger_kernel.ops import LigerMLPFunction

    LigerMLPFunction.apply(rand(2, 128, 256), *(rand(256, 256, scale=0.05) for _ in range(3)))


def mm_int8int2() -> None:
    from liger_kernel.ops.experimental.mm_int8int2 import matmul, pack_weights

    weight = pack_weights(ints(2, 1024, 128, low=-1, dtype="int32"))
    matmul(ints(128, 128, 1024, low=-128, dtype="int8"), weight)


def modulated_rms_norm() -> None:
    from liger_kernel.ops import LigerModulatedRMSNormFunction

    x, weight = rand(4, 64, 256, grad=True), rand(256, grad=True)
    scale, shift = rand(4, 256, grad=True), rand(4, 256, grad=True)
    backward(LigerModulatedRMSNormFunction.apply(x, weight, scale, shift, 1e-6))


def modulated_rms_norm_each_row() -> None:
    from liger_kernel.ops import LigerModulatedRMSNormFunction

    x, scale = rand(4, 64, 256, grad=True), rand(4, 64, 256, grad=True)
    backward(LigerModulatedRMSNormFunction.apply(x, None, scale, None, 1e-6, 0.0, "gemma", False))


def multi_token_attention() -> None:
    from liger_kernel.ops import LigerMultiTokenAttentionFunction

    scores = rand(2, 4, 64, 64, dtype="float32", grad=True)
    weight, bias = rand(4, 4, 3, 3, dtype="float32", grad=True), rand(4, dtype="float32", grad=True)
    backward(LigerMultiTokenAttentionFunction.apply(scores, weight, bias, 1, 1))


def multi_token_attention_sparse() -> None:
    from liger_kernel.ops import LigerMultiTokenAttentionFunction

    scores = rand(2, 4, 64, 64, dtype="float32", grad=True)
    weight = rand(4, 4, 3, 3, dtype="float32", grad=True)
    backward(LigerMultiTokenAttentionFunction.apply(scores, weight, None, 1, 1, 1, 1, True))


def poly_norm() -> None:
    import torch
    from liger_kernel.ops import LigerPolyNormFunction

    x, weight = rand(4, 64, 256, grad=True), rand(3, grad=True)
    bias = torch.tensor(1.0, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    backward(LigerPolyNormFunction.apply(x, weight, bias))


def qwen2vl_mrope() -> None:
    from liger_kernel.ops import LigerQwen2VLMRopeFunction

    query, key = rand(2, 4, 64, 128, grad=True), rand(2, 2, 64, 128, grad=True)
    cos, sin = rand(3, 2, 64, 128), rand(3, 2, 64, 128)
    backward(*LigerQwen2VLMRopeFunction.apply(query, key, cos, sin, [16, 24, 24]))


def relu_squared() -> None:
    from liger_kernel.ops import LigerReLUSquaredFunction

    backward(LigerReLUSquaredFunction.apply(rand(4, 64, 256, grad=True)))


def rms_norm() -> None:
    from liger_kernel.ops import LigerRMSNormFunction

    backward(LigerRMSNormFunction.apply(rand(4, 64, 256, grad=True), rand(256, grad=True), 1e-6))


def rms_norm_gemma() -> None:
    from liger_kernel.ops import LigerRMSNormFunction

    x, weight = rand(4, 64, 256, grad=True), rand(256, grad=True)
    backward(LigerRMSNormFunction.apply(x, weight, 1e-6, 1.0, "gemma", False))


def rms_norm_without_weight() -> None:
    from liger_kernel.ops import LigerRMSNormFunction

    x = rand(4, 64, 256, grad=True)
    backward(LigerRMSNormFunction.apply(x, None, 1e-6, 0.0, "none", False))


def rms_norm_blocks() -> None:
    """From 32768 rows of at most 256 columns on, a program takes 16 rows."""
    from liger_kernel.ops import LigerRMSNormFunction

    x, weight = rand(32768, 8, grad=True), rand(8, grad=True)
    backward(LigerRMSNormFunction.apply(x, weight, 1e-6))


def rope() -> None:
    from liger_kernel.ops import LigerRopeFunction

    query, key = rand(2, 4, 64, 64, grad=True), rand(2, 2, 64, 64, grad=True)
    backward(*LigerRopeFunction.apply(query, key, rand(1, 64, 64), rand(1, 64, 64)))


def softmax() -> None:
    from liger_kernel.ops import LigerSoftmaxFunction

    backward(LigerSoftmaxFunction.apply(rand(128, 1000, grad=True)))


def sparsemax() -> None:
    from liger_kernel.ops import LigerSparsemaxFunction

    backward(LigerSparsemaxFunction.apply(rand(128, 512, dtype="float32", grad=True), -1))


def swiglu() -> None:
    from liger_kernel.ops import LigerSiLUMulFunction

    backward(LigerSiLUMulFunction.apply(rand(2, 64, 512, grad=True), rand(2, 64, 512, grad=True)))


def swiglu_fused_gate_up() -> None:
    from liger_kernel.ops import LigerFusedGateUpSiLUMulFunction

    backward(LigerFusedGateUpSiLUMulFunction.apply(rand(128, 1024, grad=True)))


def swiglu_tiles() -> None:
    """Launch the tiled kernels themselves: the library's functions take them on Blackwell only."""
    import torch
    from liger_kernel.ops import swiglu as functions

    a, b, grad = (rand(64, 2048) for _ in range(3))
    out = torch.empty_like(a)
    sizes = {"BLOCK_SIZE": 1024, "num_warps": 4}
    functions._swiglu_forward_kernel_tiled[(64, 2)](a, b, out, out.stride(-2), 1.0, 2048, **sizes)
    functions._swiglu_backward_kernel_tiled[(64, 2)](grad, a, b, grad.stride(-2), 1.0, 2048, **sizes)


def tiled_mlp() -> None:
    import torch
    from liger_kernel.ops import LigerSiLUMulFunction, apply_tiled_mlp

    gate = torch.nn.Linear(128, 256, device="cuda", dtype=torch.bfloat16)
    x = rand(128, 128, grad=True)

    def halves(module: torch.nn.Module, part: torch.Tensor) -> torch.Tensor:
        first, second = module(part).chunk(2, dim=-1)
        return LigerSiLUMulFunction.apply(first, second)

    backward(apply_tiled_mlp(halves, gate, x, num_shards=2))


def tvd() -> None:
    from liger_kernel.ops import LigerTVDLossFunction

    p = rand(128, 1024, dtype="float32").softmax(-1).requires_grad_()
    q = rand(128, 1024, dtype="float32").softmax(-1)
    backward(LigerTVDLossFunction.apply(p, q, None, "batchmean"))


def tvd_labels() -> None:
    from liger_kernel.ops import LigerTVDLossFunction

    p = rand(128, 1024, dtype="float32").softmax(-1).requires_grad_()
    q = rand(128, 1024, dtype="float32").softmax(-1)
    labels = ints(1024, 128)
    labels[::7] = -100
    backward(LigerTVDLossFunction.apply(p, q, labels, "none", -100))


def vocab_parallel_cross_entropy() -> None:
    from liger_kernel.ops import LigerVocabParallelCEFunction

    logits = rand(64, 2, 1024, grad=True)
    backward(
        LigerVocabParallelCEFunction.apply(logits, ints(1024, 64, 2), None, -100, 0.0, "pytorch", "global")
    )


def vocab_parallel_cross_entropy_smoothing() -> None:
    from liger_kernel.ops import LigerVocabParallelCEFunction

    logits = rand(64, 2, 1024, grad=True)
    backward(
        LigerVocabParallelCEFunction.apply(logits, ints(1024, 64, 2), None, -100, 0.1, "pytorch", "global")
    )


if __name__ == "__main__":
    main(globals())

# Not reached:
# - _softmax_multi_block_forward_kernel and _softmax_multi_block_backward_kernel: no function of the library
#   launches them, and they do not compile (`tl.max` of two values, `tl.float32(0.0)`).
# - all of ops/backends/_ascend, ops/cute, ops/cutedsl and ops/cutile: other hardware or other compilers.
# - LigerFusedLinearScaledCrossEntropyFunction: on an H100 it is CuTe DSL; its fallback has no Triton kernel.
# The calls of Megatron and of transformers use the same kernels.
