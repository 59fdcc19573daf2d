"""PyTorch's attention by one of its libraries, which the first argument names; compares with plain torch."""

from __future__ import annotations

import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


def main() -> None:
    """Run it twice, and compare."""
    name, _, backward = sys.argv[1].partition("-")
    torch.manual_seed(3)
    shape = (2, 4, 256, 64)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.float16, requires_grad=True) for _ in range(3))
    with sdpa_kernel(BACKENDS[name]):
        for _ in range(2):
            found = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            if backward:
                found.sum().backward()
    scores = (q.float() @ k.float().transpose(-1, -2)) / 8
    mask = torch.ones(256, 256, device="cuda", dtype=torch.bool).tril()
    true = scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v.float()
    torch.cuda.synchronize()
    print("right" if torch.allclose(found.float(), true, atol=5e-3) else "wrong")


if __name__ == "__main__":
    main()
