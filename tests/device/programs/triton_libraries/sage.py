"""Call each operator of sageattention 1.0.6 once; it has no backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calls import main, rand

if TYPE_CHECKING:
    import torch


def attention() -> None:
    from sageattention import sageattn

    sageattn(*_heads(64))


def attention_causal() -> None:
    from sageattention import sageattn

    sageattn(*_heads(64), is_causal=True)


def attention_tokens_first() -> None:
    from sageattention import sageattn

    query, key, value = (rand(1, 256, 4, 128, dtype="float16") for _ in range(3))
    sageattn(query, key, value, tensor_layout="NHD", is_causal=True, smooth_k=False)


def attention_96() -> None:
    from sageattention import sageattn

    sageattn(*_heads(96))


def attention_96_causal() -> None:
    from sageattention import sageattn

    sageattn(*_heads(96), is_causal=True)


def attention_varlen() -> None:
    from sageattention import sageattn_varlen

    sageattn_varlen(*_sequences())


def attention_varlen_causal() -> None:
    from sageattention import sageattn_varlen

    sageattn_varlen(*_sequences(), is_causal=True)


def _heads(size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return query, key and value: 4 heads for queries, 2 for keys and values."""
    return rand(1, 4, 256, size), rand(1, 2, 256, size), rand(1, 2, 256, size)


def _sequences() -> tuple:
    """Return query, key and value of sequences of 100 and 156 tokens, their starts and the longest length."""
    import torch

    starts = torch.tensor([0, 100, 256], device="cuda", dtype=torch.int32)
    return rand(256, 4, 64), rand(256, 2, 64), rand(256, 2, 64), starts, starts, 156, 156


if __name__ == "__main__":
    main(globals())

# All kernels of the library are reached.
