"""Call the operators of fla-core 0.6.0 (fla.ops) once; long because it has many.

On a Hopper GPU fla refuses the gated backward pass of several operators with Triton 3.4 to 3.7.0, where it
found wrong results. The operators named `..._backward` lift that guard: their kernels run, but their results
are not to be relied on. The operators of the same name without `_backward` run the forward pass only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calls import backward, ints, main, rand

if TYPE_CHECKING:
    import torch


def _qkv(grad: bool = True, heads: int = 2, tokens: int = 128, size: int = 64) -> list[torch.Tensor]:
    return [rand(1, tokens, heads, size, grad=grad) for _ in range(3)]


def _log_decay(*shape: int, grad: bool = True, dtype: str = "float32") -> torch.Tensor:
    import torch

    values = torch.nn.functional.logsigmoid(rand(*shape, dtype="float32") + 2)
    return values.to(getattr(torch, dtype)).requires_grad_(grad)


def _gate(*shape: int, grad: bool = True, dtype: str = "bfloat16") -> torch.Tensor:
    import torch

    return rand(*shape, dtype="float32").sigmoid().to(getattr(torch, dtype)).requires_grad_(grad)


def _unit(*shape: int, grad: bool = True, dtype: str = "bfloat16") -> torch.Tensor:
    """Return vectors of length 1."""
    import torch

    values = torch.nn.functional.normalize(rand(*shape, dtype="float32"), dim=-1)
    return values.to(getattr(torch, dtype)).requires_grad_(grad)


def _lift_guard() -> None:
    """Let the gated backward pass run, see the docstring of this file."""
    from fla.ops.common import chunk_o

    chunk_o.TRITON_ABOVE_3_7_1 = True


def chunk_abc() -> None:
    from fla.ops import chunk_abc as operator

    backward(operator(*_qkv(), rand(1, 128, 2, 64, grad=True))[0])


def parallel_attn() -> None:
    from fla.ops import parallel_attn as operator

    backward(operator(rand(1, 128, 4, 64, grad=True), *_qkv()[1:]))


def parallel_attn_window_sink() -> None:
    from fla.ops import parallel_attn as operator

    sink = rand(2, dtype="float32", grad=True)
    backward(operator(*_qkv(), window_size=48, sink_bias=sink))


def attn_decoding_one_step() -> None:
    import torch
    from fla.ops.attn.decoding import attn_decoding_one_step as operator

    query, (key, value) = rand(1, 2, 4, 64), _qkv(False)[1:]
    starts = torch.tensor([0, 50, 128], device="cuda")
    operator(query, key, value, _log_decay(1, 128, 4, grad=False), cu_seqlens=starts)


def fused_attnres() -> None:
    from fla.ops import fused_attnres as operator

    residuals = [rand(1, 64, 256, grad=True) for _ in range(3)]
    query, weight = rand(256, grad=True), rand(256, grad=True)
    backward(operator(query, residuals, weight, rand(256, grad=True)))


def fused_chunk_based() -> None:
    from fla.ops import fused_chunk_based as operator

    query, key = rand(1, 128, 2, 16, grad=True), rand(1, 128, 2, 16, grad=True)
    backward(operator(query, key, rand(1, 128, 2, 64, grad=True)))


def parallel_based() -> None:
    from fla.ops import parallel_based as operator

    query, key = rand(1, 128, 2, 16, grad=True), rand(1, 128, 2, 16, grad=True)
    backward(operator(query, key, rand(1, 128, 2, 64, grad=True)))


def parallel_rebased() -> None:
    from fla.ops.rebased import parallel_rebased as operator

    query, key = rand(1, 128, 2, 16, grad=True), rand(1, 128, 2, 16, grad=True)
    backward(operator(query, key, rand(1, 128, 2, 64, grad=True)))


def _comba(grad: bool) -> dict[str, torch.Tensor]:
    query, key, value = _qkv(grad)
    return {
        "q": query,
        "k": key,
        "v": value,
        "p": rand(1, 128, 2, 64, grad=grad),
        "g": _log_decay(1, 128, 2, grad=grad),
        "beta": _gate(1, 128, 2, grad=grad),
    }


def chunk_comba() -> None:
    from fla.ops import chunk_comba as operator

    operator(**_comba(False), use_qk_l2norm_in_kernel=True)


def chunk_comba_backward() -> None:
    from fla.ops import chunk_comba as operator

    _lift_guard()
    backward(operator(**_comba(True), use_qk_l2norm_in_kernel=True)[0])


def fused_recurrent_comba() -> None:
    from fla.ops import fused_recurrent_comba as operator

    operator(**_comba(False), use_qk_l2norm_in_kernel=True)


def _cyfa(tokens: int, grad: bool) -> tuple:
    query, key, value = _qkv(grad, tokens=tokens)
    decay, delta = _log_decay(1, tokens, 2, grad=grad), rand(1, tokens, 2, dtype="float32", grad=grad)
    beta, readout = _gate(1, tokens, 2, grad=grad), rand(2, 15, 15, dtype="float32", grad=grad)
    norms = rand(64, grad=grad), rand(64, grad=grad)
    return query, key, value, decay, delta, beta, readout, *norms, 1e-6, 1e-6


def chunk_cyfa() -> None:
    from fla.ops import chunk_cyfa as operator

    backward(operator(*_cyfa(128, True))[0])


def chunk_cyfa_checkpoint() -> None:
    from fla.ops import chunk_cyfa as operator

    backward(operator(*_cyfa(128, True), checkpoint_level=1)[0])


def fused_recurrent_cyfa() -> None:
    from fla.ops import fused_recurrent_cyfa as operator

    _, state = operator(*_cyfa(32, False), output_final_state=True)
    operator(*_cyfa(1, False), initial_state=state, output_final_state=True)


def chunk_delta_rule() -> None:
    from fla.ops import chunk_delta_rule as operator

    backward(operator(*_qkv(), _gate(1, 128, 2), use_qk_l2norm_in_kernel=True)[0])


def chunk_delta_rule_varlen() -> None:
    import torch
    from fla.ops import chunk_delta_rule as operator

    starts = torch.tensor([0, 50, 128], device="cuda")
    state = rand(2, 2, 64, 64, dtype="float32", grad=True)
    out, final = operator(
        *_qkv(),
        _gate(1, 128, 2),
        initial_state=state,
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
        cu_seqlens=starts,
    )
    backward(out, final)


def fused_recurrent_delta_rule() -> None:
    from fla.ops import fused_recurrent_delta_rule as operator

    backward(operator(*_qkv(), _gate(1, 128, 2), use_qk_l2norm_in_kernel=True)[0])


def parallel_forgetting_attn() -> None:
    from fla.ops import parallel_forgetting_attn as operator

    backward(operator(*_qkv(), _log_decay(1, 128, 2)))


def chunk_gated_delta_rule() -> None:
    from fla.ops import chunk_gated_delta_rule as operator

    decay, beta = _log_decay(1, 128, 2, grad=False), _gate(1, 128, 2, grad=False)
    operator(*_qkv(False), decay, beta, use_qk_l2norm_in_kernel=True)


def chunk_gated_delta_rule_backward() -> None:
    from fla.ops import chunk_gated_delta_rule as operator

    _lift_guard()
    backward(operator(*_qkv(), _log_decay(1, 128, 2), _gate(1, 128, 2), use_qk_l2norm_in_kernel=True)[0])


def chunk_gated_delta_rule_gates() -> None:
    from fla.ops import chunk_gated_delta_rule as operator

    operator(
        *_qkv(False),
        rand(1, 128, 2),
        rand(1, 128, 2),
        use_qk_l2norm_in_kernel=True,
        use_gate_in_kernel=True,
        use_beta_sigmoid_in_kernel=True,
        A_log=rand(2, dtype="float32"),
        dt_bias=rand(2, dtype="float32"),
    )


def chunk_gated_delta_rule_gates_backward() -> None:
    from fla.ops import chunk_gated_delta_rule as operator

    _lift_guard()
    out, _ = operator(
        *_qkv(),
        rand(1, 128, 2, grad=True),
        rand(1, 128, 2, grad=True),
        use_qk_l2norm_in_kernel=True,
        use_gate_in_kernel=True,
        use_beta_sigmoid_in_kernel=True,
        A_log=rand(2, dtype="float32", grad=True),
        dt_bias=rand(2, dtype="float32", grad=True),
    )
    backward(out)


def fused_gdn_gate() -> None:
    from fla.ops.gated_delta_rule.gate import fused_gdn_gate as operator

    decay, bias = rand(2, dtype="float32", grad=True), rand(2, dtype="float32", grad=True)
    backward(operator(rand(1, 128, 2, grad=True), decay, bias))


def fused_recurrent_gated_delta_rule() -> None:
    from fla.ops import fused_recurrent_gated_delta_rule as operator

    decay, beta = _log_decay(1, 128, 2, grad=False), _gate(1, 128, 2, grad=False)
    operator(*_qkv(False), g=decay, beta=beta, use_qk_l2norm_in_kernel=True)


def _gated_delta_product(grad: bool) -> tuple:
    """Two Householder steps for each token."""
    query = rand(1, 128, 2, 64, grad=grad)
    key, value = rand(1, 256, 2, 64, grad=grad), rand(1, 256, 2, 64, grad=grad)
    return query, key, value, _log_decay(1, 128, 2, grad=grad), _gate(1, 256, 2, grad=grad), 2


def chunk_gated_delta_product() -> None:
    from fla.ops.gated_delta_product import chunk_gated_delta_product as operator

    operator(*_gated_delta_product(False), use_qk_l2norm_in_kernel=True)


def chunk_gated_delta_product_backward() -> None:
    from fla.ops.gated_delta_product import chunk_gated_delta_product as operator

    _lift_guard()
    backward(operator(*_gated_delta_product(True), use_qk_l2norm_in_kernel=True)[0])


def chunk_gated_oja_rule() -> None:
    from fla.ops.gated_oja_rule import chunk_gated_oja_rule as operator

    query, key, value = rand(1, 128, 2, 64, grad=True), rand(1, 128, 2, 64, grad=True), _unit(1, 128, 2, 64)
    backward(operator(query, key, value, _log_decay(1, 128, 2, 64), _gate(1, 128, 2), use_q_l2norm=True)[0])


def fused_recurrent_gated_oja_rule() -> None:
    from fla.ops.gated_oja_rule import fused_recurrent_gated_oja_rule as operator

    decay, beta = _log_decay(1, 128, 2, 64, grad=False), _gate(1, 128, 2, grad=False)
    operator(*_qkv(False), decay, beta, use_q_l2norm=True, use_k_l2norm=True)


def chunk_gdn2() -> None:
    from fla.ops.gdn2 import chunk_gdn2 as operator

    erase, write = _gate(1, 128, 2, 64), _gate(1, 128, 2, 64)
    backward(operator(*_qkv(), _log_decay(1, 128, 2, 64), erase, write, use_qk_l2norm_in_kernel=True)[0])


def chunk_gdn2_safe_gate() -> None:
    from fla.ops.gdn2 import chunk_gdn2 as operator

    erase, write = _gate(1, 128, 2, 64), _gate(1, 128, 2, 64)
    out, *_ = operator(
        *_qkv(),
        rand(1, 128, 2, 64, grad=True),
        erase,
        write,
        use_qk_l2norm_in_kernel=True,
        use_gate_in_kernel=True,
        safe_gate=True,
        lower_bound=-5.0,
        A_log=rand(2, dtype="float32", grad=True),
        dt_bias=rand(128, dtype="float32", grad=True),
    )
    backward(out)


def fused_recurrent_gdn2() -> None:
    from fla.ops.gdn2 import fused_recurrent_gdn2 as operator

    decay = _log_decay(1, 128, 2, 64, grad=False)
    gates = _gate(1, 128, 2, 64, grad=False), _gate(1, 128, 2, 64, grad=False)
    operator(*_qkv(False), decay, *gates, use_qk_l2norm_in_kernel=True)


def _dplr(grad: bool) -> tuple:
    """Return query, key, value and the two low-rank vectors, and the decay."""
    query, key, value = _qkv(grad)
    unit = _unit(1, 128, 2, 64, grad=False)
    left = (-unit).requires_grad_(grad)
    right = (unit * 0.5).requires_grad_(grad)
    return query, key, value, left, right, _log_decay(1, 128, 2, 64, grad=grad)


def chunk_dplr_delta_rule() -> None:
    from fla.ops import chunk_dplr_delta_rule as operator

    backward(operator(*_dplr(True))[0])


def chunk_dplr_delta_rule_safe_gate() -> None:
    from fla.ops import chunk_dplr_delta_rule as operator

    backward(operator(*_dplr(True), safe_gate=True)[0])


def fused_recurrent_dplr_delta_rule() -> None:
    from fla.ops import fused_recurrent_dplr_delta_rule as operator

    operator(*_dplr(False))


def chunk_iplr_delta_rule() -> None:
    """Forward only: it has no backward pass."""
    from fla.ops import chunk_iplr_delta_rule as operator

    operator(*_dplr(False)[:5])


def chunk_iplr_delta_rule_32() -> None:
    from fla.ops import chunk_iplr_delta_rule as operator

    operator(*_dplr(False)[:5], chunk_size=32)


def fused_recurrent_iplr_delta_rule() -> None:
    from fla.ops import fused_recurrent_iplr_delta_rule as operator

    backward(operator(*_dplr(True)[:5])[0])


def chunk_gla() -> None:
    from fla.ops import chunk_gla as operator

    backward(operator(*_qkv(), _log_decay(1, 128, 2, 64))[0])


def chunk_gla_wide() -> None:
    """Keys of more than 256 columns are split."""
    from fla.ops import chunk_gla as operator

    query, key = rand(1, 128, 1, 512), rand(1, 128, 1, 512)
    operator(query, key, rand(1, 128, 1, 64), _log_decay(1, 128, 1, 512, grad=False))


def fused_recurrent_gla() -> None:
    from fla.ops import fused_recurrent_gla as operator

    backward(operator(*_qkv(), _log_decay(1, 128, 2, 64), _log_decay(1, 128, 2, 64))[0])


def chunk_gsa() -> None:
    from fla.ops import chunk_gsa as operator

    backward(operator(*_qkv(), rand(1, 128, 2, 64, grad=True))[0])


def fused_recurrent_gsa() -> None:
    from fla.ops import fused_recurrent_gsa as operator

    backward(operator(*_qkv(), rand(1, 128, 2, 64, grad=True), _log_decay(1, 128, 2, 64))[0])


def fused_recurrent_gsa_one_token() -> None:
    from fla.ops import fused_recurrent_gsa as operator

    state = rand(1, 2, 64, 64, dtype="float32"), rand(1, 2, 64, 64, dtype="float32")
    slots, decay = rand(1, 1, 2, 64), _log_decay(1, 1, 2, 64, grad=False)
    operator(*_qkv(False, tokens=1), slots, decay, initial_state=state, output_final_state=True)


def chunk_hgrn() -> None:
    from fla.ops.hgrn import chunk_hgrn as operator

    backward(operator(rand(1, 256, 128, grad=True), _log_decay(1, 256, 128))[0])


def fused_recurrent_hgrn() -> None:
    from fla.ops import fused_recurrent_hgrn as operator

    backward(operator(rand(1, 256, 128, grad=True), _log_decay(1, 256, 128))[0])


def chunk_kda() -> None:
    from fla.ops import chunk_kda as operator

    decay, beta = _log_decay(1, 128, 2, 64), _gate(1, 128, 2)
    backward(operator(*_qkv(), decay, beta, use_qk_l2norm_in_kernel=True)[0])


def chunk_kda_safe_gate() -> None:
    from fla.ops import chunk_kda as operator

    out, *_ = operator(
        *_qkv(),
        rand(1, 128, 2, 64, grad=True),
        rand(1, 128, 2, grad=True),
        use_qk_l2norm_in_kernel=True,
        use_gate_in_kernel=True,
        use_beta_sigmoid_in_kernel=True,
        safe_gate=True,
        lower_bound=-5.0,
        A_log=rand(2, dtype="float32", grad=True),
        dt_bias=rand(128, dtype="float32", grad=True),
    )
    backward(out)


def fused_kda_gate() -> None:
    from fla.ops.kda.gate import fused_kda_gate as operator

    decay, bias = rand(2, dtype="float32", grad=True), rand(128, dtype="float32", grad=True)
    backward(operator(rand(1, 128, 2, 64, grad=True), decay, bias))


def fused_recurrent_kda() -> None:
    from fla.ops import fused_recurrent_kda as operator

    decay, beta = _log_decay(1, 128, 2, 64, grad=False), _gate(1, 128, 2, grad=False)
    operator(*_qkv(False), decay, beta, use_qk_l2norm_in_kernel=True)


def chunk_lightnet() -> None:
    from fla.ops.lightnet.chunk import chunk_lightnet as operator

    backward(operator(*_qkv())[0])


def chunk_lightning_attn() -> None:
    from fla.ops import chunk_lightning_attn as operator

    backward(operator(*_qkv(), 1, 4)[0])


def chunk_linear_attn() -> None:
    from fla.ops import chunk_linear_attn as operator

    backward(operator(*_qkv())[0])


def fused_chunk_linear_attn() -> None:
    from fla.ops import fused_chunk_linear_attn as operator

    backward(operator(*_qkv())[0])


def fused_recurrent_linear_attn() -> None:
    from fla.ops import fused_recurrent_linear_attn as operator

    backward(operator(*_qkv())[0])


def _log_linear(tokens: int, grad: bool) -> tuple:
    query, key, value = _qkv(grad, tokens=tokens)
    return query, key, value, _log_decay(1, tokens, 2, grad=grad), _gate(1, tokens, 2, 10, grad=grad)


def chunk_log_linear_attn() -> None:
    from fla.ops import chunk_log_linear_attn as operator

    backward(operator(*_log_linear(256, True))[0])


def chunk_log_linear_attn_state() -> None:
    """Go on from a state that ends within a chunk."""
    import torch
    from fla.ops import chunk_log_linear_attn as operator

    with torch.no_grad():
        _, state = operator(*_log_linear(100, False), output_final_state=True)
        operator(*_log_linear(60, False), initial_state=state, output_final_state=True)


def chunk_mesa_net() -> None:
    from fla.ops import chunk_mesa_net as operator

    decay, beta = _log_decay(1, 128, 2), _gate(1, 128, 2, dtype="float32")
    lamb = (_gate(2, 64, grad=False, dtype="float32") + 0.25).requires_grad_()
    backward(operator(*_qkv(), decay, beta, lamb, use_qk_l2norm_in_kernel=True)[0])


def mesa_net_decoding_one_step() -> None:
    import torch
    from fla.ops.mesa_net import mesa_net_decoding_one_step as operator

    query, key, value = (_unit(2, 2, 64, grad=False) for _ in range(3))
    decay, beta = _log_decay(2, 2, grad=False), _gate(2, 2, grad=False, dtype="float32")
    lamb = _gate(2, 64, grad=False, dtype="float32") + 0.25
    states = (torch.zeros(2, 2, 64, 64, device="cuda") for _ in range(2))
    operator(query, key, value, decay, lamb, beta, *states)


def parallel_nsa() -> None:
    from fla.ops import parallel_nsa as operator

    query = rand(1, 256, 16, 64, grad=True)
    key, value = rand(1, 256, 1, 64, grad=True), rand(1, 256, 1, 64, grad=True)
    gates = _gate(1, 256, 16), _gate(1, 256, 16)
    backward(operator(query, key, value, *gates, block_counts=4, block_size=32))


def parallel_parallax() -> None:
    from fla.ops import parallel_parallax as operator

    query, key, value = _qkv()
    backward(operator(query, rand(1, 128, 2, 64, grad=True, scale=0.1), key, value))


def parallax_decode() -> None:
    from fla.ops.parallax.decode import parallax_decode as operator

    _, key, value = _qkv(False)
    operator(rand(1, 16, 2, 64), rand(1, 16, 2, 64, scale=0.1), key, value)


def parallax_decode_one_step() -> None:
    from fla.ops.parallax.decode import parallax_decode_one_step as operator

    _, key, value = _qkv(False)
    operator(rand(1, 1, 2, 64), rand(1, 1, 2, 64, scale=0.1), key, value)


def parallel_path_attn() -> None:
    from fla.ops import parallel_path_attn as operator

    weight, beta = _unit(1, 256, 2, 64, dtype="float32"), _gate(1, 256, 2, dtype="float32")
    backward(operator(*_qkv(tokens=256), weight, beta, _log_decay(1, 256, 2))[0])


def parallel_path_attn_cache() -> None:
    import torch
    from fla.ops import parallel_path_attn as operator

    weight = _unit(1, 256, 2, 64, grad=False, dtype="float32")
    beta = _gate(1, 256, 2, grad=False, dtype="float32")
    with torch.no_grad():
        operator(*_qkv(False, tokens=256), weight, beta, use_cache=True)


def _precond(grad: bool, width: tuple[int, ...]) -> dict[str, torch.Tensor]:
    query, key, value = _qkv(grad)
    return {
        "q": query,
        "k": key,
        "v": value,
        "g": _log_decay(1, 128, 2, *width, grad=grad),
        "g_atk": _log_decay(1, 128, 2, grad=grad),
        "beta": _gate(1, 128, 2, grad=grad),
        "beta_atk": _gate(1, 128, 2, grad=grad),
    }


def chunk_precond_gated_delta_rule() -> None:
    from fla.ops import chunk_precond_gated_delta_rule as operator

    operator(**_precond(False, ()))


def chunk_precond_gated_delta_rule_backward() -> None:
    from fla.ops import chunk_precond_gated_delta_rule as operator

    _lift_guard()
    backward(operator(**_precond(True, ()))[0])


def fused_recurrent_precond_gated_delta_rule() -> None:
    from fla.ops import fused_recurrent_precond_gated_delta_rule as operator

    scale = rand(2, dtype="float32", scale=0.1)
    operator(**_precond(False, ()), log_atk_scale=scale)


def chunk_precond_kda() -> None:
    from fla.ops import chunk_precond_kda as operator

    backward(operator(**_precond(True, (64,)))[0])


def chunk_precond_kda_safe_gate() -> None:
    from fla.ops import chunk_precond_kda as operator

    backward(operator(**_precond(True, (64,)), safe_gate=True)[0])


def fused_recurrent_precond_kda() -> None:
    from fla.ops import fused_recurrent_precond_kda as operator

    scale = rand(2, dtype="float32", scale=0.1)
    operator(**_precond(False, (64,)), log_atk_scale=scale)


def chunk_retention() -> None:
    from fla.ops import chunk_retention as operator

    backward(operator(*_qkv())[0])


def fused_chunk_retention() -> None:
    from fla.ops import fused_chunk_retention as operator

    backward(operator(*_qkv())[0])


def fused_recurrent_retention() -> None:
    from fla.ops import fused_recurrent_retention as operator

    backward(operator(*_qkv())[0])


def parallel_retention() -> None:
    from fla.ops import parallel_retention as operator

    backward(operator(*_qkv())[0])


def chunk_simple_gla() -> None:
    from fla.ops import chunk_simple_gla as operator

    operator(*_qkv(False), g=_log_decay(1, 128, 2, grad=False))


def chunk_simple_gla_backward() -> None:
    from fla.ops import chunk_simple_gla as operator

    _lift_guard()
    backward(operator(*_qkv(), g=_log_decay(1, 128, 2))[0])


def fused_chunk_simple_gla() -> None:
    from fla.ops import fused_chunk_simple_gla as operator

    backward(operator(*_qkv(), g=_log_decay(1, 128, 2))[0])


def fused_recurrent_simple_gla() -> None:
    from fla.ops import fused_recurrent_simple_gla as operator

    backward(operator(*_qkv(), g=_log_decay(1, 128, 2))[0])


def parallel_simple_gla() -> None:
    from fla.ops import parallel_simple_gla as operator

    backward(operator(*_qkv(), g=_log_decay(1, 128, 2))[0])


def fused_recurrent_rwkv4() -> None:
    from fla.ops.rwkv4 import fused_recurrent_rwkv4 as operator

    decay, bonus = rand(128, dtype="float32", grad=True), rand(128, dtype="float32", grad=True)
    key, value = rand(2, 64, 128, dtype="float32", grad=True), rand(2, 64, 128, dtype="float32", grad=True)
    backward(*operator(decay, bonus, key, value, rand(2, 3, 1, 128, dtype="float32", grad=True)))


def chunk_rwkv6() -> None:
    from fla.ops import chunk_rwkv6 as operator

    backward(operator(*_qkv(), _log_decay(1, 128, 2, 64), rand(2, 64, grad=True))[0])


def chunk_rwkv6_wide() -> None:
    """Keys of more than 256 columns are split."""
    from fla.ops import chunk_rwkv6 as operator

    query, key = rand(1, 128, 1, 512), rand(1, 128, 1, 512)
    operator(query, key, rand(1, 128, 1, 64), _log_decay(1, 128, 1, 512, grad=False), rand(1, 512))


def fused_recurrent_rwkv6() -> None:
    from fla.ops import fused_recurrent_rwkv6 as operator

    backward(operator(*_qkv(), _log_decay(1, 128, 2, 64), rand(2, 64, grad=True))[0])


def chunk_rwkv7() -> None:
    from fla.ops import chunk_rwkv7 as operator

    query, key, value, left, right, decay = _dplr(True)
    backward(operator(query, decay, key, value, left, right)[0])


def fused_mul_recurrent_rwkv7() -> None:
    from fla.ops.rwkv7 import fused_mul_recurrent_rwkv7 as operator

    query, key, value = _qkv(False)
    decay, unit = _log_decay(1, 128, 2, 64, grad=False), _unit(1, 128, 2, 64, grad=False)
    operator(query, decay, key, value, unit, _gate(1, 128, 2, 64, grad=False))


def channel_mixing_rwkv7() -> None:
    from fla.ops.rwkv7.channel_mixing import channel_mixing_rwkv7 as operator

    x, previous, mix = rand(2, 64, 128, grad=True), rand(2, 128, grad=True), rand(1, 1, 128, grad=True)
    key, value = rand(128, 256, grad=True, scale=0.1), rand(256, 128, grad=True, scale=0.1)
    backward(operator(x, previous, mix, key, value, inplace=False)[0])


def fused_addcmul_rwkv7() -> None:
    from fla.ops.rwkv7.fused_addcmul import fused_addcmul_rwkv7 as operator

    x, delta = rand(2, 64, 128, grad=True), rand(2, 64, 128, grad=True)
    backward(*operator(x, delta, *(rand(1, 1, 128, grad=True) for _ in range(6))))


def fused_k_rwkv7() -> None:
    from fla.ops.rwkv7.fused_k_update import fused_k_rwkv7 as operator

    backward(operator(rand(2, 64, 128, grad=True), _gate(2, 64, 128), rand(128, grad=True)))


def fused_k_rwkv7_long() -> None:
    from fla.ops.rwkv7.fused_k_update import fused_k_rwkv7 as operator

    backward(operator(rand(1, 1024, 128, grad=True), _gate(1, 1024, 128), rand(128, grad=True)))


def gate_output_correction() -> None:
    from fla.ops.rwkv7.gate_output_correction import gate_output_correction as operator

    query, key, value = _qkv()
    out, gate = rand(1, 128, 128, grad=True), rand(1, 128, 128, grad=True)
    backward(operator(out, query, key, rand(2, 64, grad=True), value, gate))


def parallel_stickbreaking_attn() -> None:
    from fla.ops import parallel_stickbreaking_attn as operator

    backward(*operator(*_qkv()))


def _ttt() -> tuple:
    rate = (_gate(1, 128, 2, 1, grad=False) * 0.01).requires_grad_()
    return *_qkv(), rand(2, 64, grad=True), rand(2, 64, grad=True), rate


def chunk_ttt_linear() -> None:
    from fla.ops.ttt import chunk_ttt_linear as operator

    backward(operator(*_ttt())[0])


def fused_chunk_ttt_linear() -> None:
    from fla.ops.ttt import fused_chunk_ttt_linear as operator

    backward(operator(*_ttt())[0])


def parallel_wall_attn() -> None:
    from fla.ops import parallel_wall_attn as operator

    backward(operator(*_qkv(), _log_decay(1, 128, 2, 64, dtype="float32")))


def parallel_wall_attn_decode() -> None:
    from fla.ops import parallel_wall_attn_decode as operator
    from fla.ops.wall_attn.decode import build_wall_kv_cache

    query, key, value = _qkv(False)
    prefix = _log_decay(1, 128, 2, 64, grad=False).cumsum(1) * 1.4426950408889634
    rescaled, anchors = build_wall_kv_cache(key, prefix, 64)
    query, current = query[:, -16:].contiguous(), prefix[:, -16:].contiguous()
    operator(query, value, current, rescaled, anchors, None, 0.125, 64)


def chunk_states_parallel() -> None:
    """Call both passes over the states themselves: no operator of the library uses this form."""
    from fla.ops.common import chunk_h_parallel as functions

    query, key, value = _qkv(False)
    decay = _log_decay(1, 128, 2, grad=False)
    first, last = (rand(1, 2, 64, 64, dtype="float32") for _ in range(2))
    functions.chunk_fwd_h(key, value, decay, None, None, first, True)
    out = rand(1, 128, 2, 64)
    functions.chunk_bwd_dh(query, key, value, decay, None, None, out, first, last, 0.125)


def chunk_states_split() -> None:
    """Call both passes over the states themselves: no operator of the library uses this form."""
    from fla.ops.common import chunk_h_split as functions

    query, key, value = _qkv(False, tokens=256)
    decay = _log_decay(1, 256, 2, grad=False)
    first, last = (rand(1, 2, 64, 64, dtype="float32") for _ in range(2))
    functions.chunk_fwd_h(key, value, decay, None, None, first, True, split_size=128)
    out = rand(1, 256, 2, 64)
    functions.chunk_bwd_dh(query, key, value, decay, None, None, out, first, last, 0.125, split_size=128)


def solve_tril() -> None:
    from fla.ops.utils.solve_tril import solve_tril as operator

    for size in (16, 32, 64):
        block = rand(size, size, dtype="float32", scale=0.1).tril(-1)
        operator(block.repeat(128 // size, 1).reshape(1, 128, 1, size).repeat(1, 1, 2, 1))


def cumsum() -> None:
    from fla.ops.utils.cumsum import chunk_global_cumsum, chunk_local_cumsum

    for values in (_log_decay(1, 128, 2, grad=False), _log_decay(1, 128, 2, 64, grad=False)):
        chunk_global_cumsum(values)
        chunk_local_cumsum(values, 64, reverse=True)


def logsumexp() -> None:
    from fla.ops.utils.logsumexp import logsumexp_fwd

    logsumexp_fwd(rand(128, 1000))


def matmul() -> None:
    from fla.ops.utils.matmul import matmul as operator

    operator(rand(128, 256), rand(256, 128), "relu")


def pack_sequence() -> None:
    import torch
    from fla.ops.utils.pack import pack_sequence as operator
    from fla.ops.utils.pack import unpack_sequence

    starts = torch.tensor([0, 100, 164], device="cuda")
    packed = operator(rand(2, 100, 128, grad=True), starts)
    backward(unpack_sequence(packed, starts))


def sinkhorn() -> None:
    from fla.ops.utils.sinkhorn.ops import sinkhorn as operator

    backward(operator(rand(128, 4, 4, dtype="float32", grad=True)))


def softmax() -> None:
    from fla.ops.utils.softmax import softmax_bwd, softmax_fwd

    values = softmax_fwd(rand(128, 1000))
    softmax_bwd(values, rand(128, 1000, dtype="float32"))


def mean_pooling() -> None:
    from fla.ops.utils.pooling import mean_pooling as operator

    backward(operator(rand(1, 128, 2, 64, grad=True), 32))


def block_csr() -> None:
    """List for each block of keys the tokens that chose it."""
    from fla.ops.utils.csr import prepare_block_csr

    prepare_block_csr(ints(4, 1, 128, 1, 2, dtype="int32"), 2, None, None, 4, 32)


if __name__ == "__main__":
    main(globals())

# Not reached:
# - the kernels of context parallelism (fla/ops/cp): they take several GPUs.
# - the backends ascend, gluon, tilelang, flash_kda and flash_qla: other hardware, compilers or packages.
# - chunk_momentum_delta_rule, titans and dsa have no Triton kernel; parallel_moba only calls flash-attn.
# - prepare_position_ids_kernel (utils/index.py) and chunk_gsa_bwd_k_kernel_dqkvg (gated_oja_rule/chunk_h.py):
#   nothing launches them.
# - chunk_scaled_dot_kkt_fwd_kernel of gated_oja_rule/chunk_kkt.py: its only caller always passes a decay.
# - prepare_wy_repr_fwd_kernel_chunk64 of dplr: only for a chunk of 64 without a bound of the decay.
# - the two kernels of mesa_net/chunk_h_kv_intra_bwd_separate.py: only on a GPU with little shared memory.
# - parallel_delta_rule and deltaformer import what fla-core does not have.
# - fused_chunk_gla and fused_chunk_delta_rule only raise that they are deprecated.
