"""Call the functions of fla-core 0.6.0 that its modules (fla.modules) are made of once."""

from calls import backward, ints, main, rand


def sigmoid() -> None:
    from fla.modules.activations.ops import SigmoidFunction

    backward(SigmoidFunction.apply(rand(128, 512, grad=True)))


def elu_p1() -> None:
    from fla.modules.activations.ops import ELUPlusOneFunction

    backward(ELUPlusOneFunction.apply(rand(128, 512, grad=True)))


def logsigmoid() -> None:
    from fla.modules.activations.ops import LogSigmoidFunction

    backward(LogSigmoidFunction.apply(rand(128, 512, grad=True), 1.0))


def swish() -> None:
    from fla.modules.activations.ops import SwishFunction

    backward(SwishFunction.apply(rand(128, 512, grad=True)))


def swiglu() -> None:
    from fla.modules.activations.ops import SwiGLUFunction

    backward(SwiGLUFunction.apply(rand(128, 512, grad=True), rand(128, 512, grad=True)))


def swiglu_linear() -> None:
    from fla.modules.activations.ops import SwiGLULinearFunction

    x, y = rand(128, 512, grad=True), rand(128, 512, grad=True)
    backward(SwiGLULinearFunction.apply(x, y, rand(256, 512, grad=True, scale=0.1), rand(256, grad=True)))


def sigmoidglu() -> None:
    from fla.modules.activations.ops import SigmoidGLUFunction

    backward(SigmoidGLUFunction.apply(rand(128, 512, grad=True), rand(128, 512, grad=True)))


def sigmoidglu_linear() -> None:
    from fla.modules.activations.ops import SigmoidGLULinearFunction

    x, y = rand(128, 512, grad=True), rand(128, 512, grad=True)
    backward(SigmoidGLULinearFunction.apply(x, y, rand(256, 512, grad=True, scale=0.1), rand(256, grad=True)))


def powglu() -> None:
    from fla.modules.activations.ops import powglu as operator

    backward(operator(rand(128, 512, grad=True), rand(128, 512, grad=True)))


def powglu_linear() -> None:
    from fla.modules.activations.ops import powglu_linear as operator

    x, y = rand(128, 512, grad=True), rand(128, 512, grad=True)
    backward(operator(x, y, rand(256, 512, grad=True, scale=0.1), rand(256, grad=True)))


def causal_conv1d() -> None:
    from fla.modules.causal_conv1d.ops import causal_conv1d as operator

    x, weight, bias = rand(2, 128, 256, grad=True), rand(256, 4, grad=True), rand(256, grad=True)
    backward(operator(x, weight, bias, activation="silu")[0])


def causal_conv1d_state() -> None:
    from fla.modules.causal_conv1d.ops import causal_conv1d as operator

    x, weight, state = rand(2, 128, 256, grad=True), rand(256, 4, grad=True), rand(2, 256, 4, grad=True)
    residual = rand(2, 128, 256, grad=True)
    backward(*operator(x, weight, None, residual, state, output_final_state=True, activation="silu"))


def causal_conv1d_update() -> None:
    from fla.modules.causal_conv1d.ops import causal_conv1d_update as operator

    operator(rand(4, 1, 256), rand(4, 256, 4), weight=rand(256, 4), bias=rand(256), activation="silu")


def cross_entropy() -> None:
    from fla.modules.fused_cross_entropy.ops import cross_entropy_loss

    backward(cross_entropy_loss(rand(128, 1024, grad=True), ints(1024, 128))[0])


def cross_entropy_options() -> None:
    from fla.modules.fused_cross_entropy.ops import cross_entropy_loss

    target = ints(1024, 128)
    target[::7] = -100
    backward(cross_entropy_loss(rand(128, 1024, grad=True), target, 0.1, 1.5, 1e-4, 30.0)[0])


def cross_entropy_many_classes() -> None:
    """More than 65536 classes take several programs a row and a kernel that joins their results."""
    from fla.modules.fused_cross_entropy.ops import cross_entropy_loss

    backward(cross_entropy_loss(rand(4, 70000, grad=True), ints(70000, 4))[0])


def fused_kl_div() -> None:
    from fla.modules.fused_kl_div.ops import fused_kl_div_loss

    x, weight = rand(128, 256, grad=True), rand(1024, 256, grad=True, scale=0.05)
    backward(fused_kl_div_loss(x, rand(128, 256), weight, rand(1024, 256, scale=0.05)))


def fused_linear_cross_entropy() -> None:
    from fla.modules.fused_linear_cross_entropy.ops import fused_linear_cross_entropy_loss

    x, weight = rand(128, 256, grad=True), rand(1024, 256, grad=True, scale=0.05)
    backward(fused_linear_cross_entropy_loss(x, ints(1024, 128), weight, rand(1024, grad=True)))


def grpo_loss() -> None:
    from fla.modules.grpo.ops import fused_grpo_loss

    logits, reference = rand(4, 32, 1024, grad=True), -rand(4, 31, dtype="float32").abs()
    backward(fused_grpo_loss(logits, reference, ints(1024, 4, 31), rand(4, dtype="float32")))


def layer_norm() -> None:
    from fla.modules.norm.layernorm import layer_norm as operator

    weight, bias = rand(256, grad=True), rand(256, grad=True)
    backward(operator(rand(4, 64, 256, grad=True), weight, bias, residual=rand(4, 64, 256, grad=True)))


def layer_norm_wide() -> None:
    """From 513 columns on, a program takes one row."""
    from fla.modules.norm.layernorm import layer_norm as operator

    backward(operator(rand(2, 64, 1024, grad=True), rand(1024, grad=True), rand(1024, grad=True)))


def rms_norm() -> None:
    from fla.modules.norm.layernorm import rms_norm as operator

    backward(operator(rand(4, 64, 256, grad=True), rand(256, grad=True), None))


def group_norm() -> None:
    from fla.modules.norm.layernorm import group_norm as operator

    backward(operator(rand(4, 64, 256, grad=True), rand(256, grad=True), rand(256, grad=True), num_groups=4))


def rms_norm_linear() -> None:
    from fla.modules.norm.layernorm import rms_norm_linear as operator

    linear = rand(128, 256, grad=True, scale=0.1)
    backward(operator(rand(4, 64, 256, grad=True), rand(256, grad=True), None, linear, None))


def layer_norm_gated() -> None:
    from fla.modules.norm.fused_norm_gate import layer_norm_gated as operator

    x, gate = rand(4, 64, 256, grad=True), rand(4, 64, 256, grad=True)
    backward(operator(x, gate, rand(256, grad=True), rand(256, grad=True)))


def rms_norm_gated_wide() -> None:
    """From 513 columns on, a program takes one row."""
    from fla.modules.norm.fused_norm_gate import rms_norm_gated as operator

    x, gate = rand(2, 64, 1024, grad=True), rand(2, 64, 1024, grad=True)
    backward(operator(x, gate, rand(1024, grad=True), None, activation="sigmoid"))


def rms_norm_swish_gate_linear() -> None:
    from fla.modules.norm.fused_norm_gate import rms_norm_swish_gate_linear as operator

    x, gate = rand(4, 64, 256, grad=True), rand(4, 64, 256, grad=True)
    linear = rand(128, 256, grad=True, scale=0.1)
    backward(operator(x, gate, rand(256, grad=True), None, linear, None))


def grouped_norm_gated() -> None:
    from fla.modules.norm.layernorm_gated import rmsnorm_fn

    x, gate = rand(4, 64, 256, grad=True), rand(4, 64, 256, grad=True)
    backward(rmsnorm_fn(x, rand(256, grad=True), None, gate, group_size=64))


def l2norm() -> None:
    from fla.modules.norm.l2norm import l2norm as operator

    backward(operator(rand(4, 64, 256, grad=True)))


def l2norm_wide() -> None:
    """From 513 columns on, a program takes one row."""
    from fla.modules.norm.l2norm import l2norm as operator

    backward(operator(rand(2, 64, 1024, grad=True)))


def bit_linear() -> None:
    from fla.modules.fused_bitlinear import bit_linear as operator

    weight = rand(128, 256, grad=True, scale=0.1)
    backward(operator(rand(4, 64, 256, grad=True), weight, None, rand(256, grad=True)))


def rotary_embedding() -> None:
    from fla.modules.rotary.ops import rotary_embedding as operator

    backward(operator(rand(1, 128, 2, 64, grad=True), rand(128, 32), rand(128, 32)))


def token_shift() -> None:
    from fla.modules.token_shift import token_shift as operator

    backward(operator(rand(2, 128, 256, grad=True)))


def token_shift_long() -> None:
    """More than 4096 tokens take other kernels."""
    from fla.modules.token_shift import token_shift as operator

    backward(operator(rand(1, 4160, 64, grad=True)))


if __name__ == "__main__":
    main(globals())

# Not reached:
# - the Gluon and CUDA backends of causal_conv1d and cross entropy: off unless asked for, or another package.
# Cross entropy over several GPUs launches the same kernels.
