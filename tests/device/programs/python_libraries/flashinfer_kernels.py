"""One of FlashInfer's operators, which the first argument names; compares with plain torch."""

from __future__ import annotations

import sys

import flashinfer
import torch


def rmsnorm() -> tuple[torch.Tensor, torch.Tensor]:
    """Normalise rows."""
    x = torch.randn(64, 1024, device="cuda", dtype=torch.float16)
    weight = torch.randn(1024, device="cuda", dtype=torch.float16)
    y = x.float()
    true = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * weight.float()
    return flashinfer.norm.rmsnorm(x, weight), true


def silu() -> tuple[torch.Tensor, torch.Tensor]:
    """Gate one half of each row by the other."""
    x = torch.randn(64, 2048, device="cuda", dtype=torch.float16)
    left, right = x.float().chunk(2, -1)
    return flashinfer.silu_and_mul(x), torch.nn.functional.silu(left) * right


def decode() -> tuple[torch.Tensor, torch.Tensor]:
    """Attend from one query to 300 keys."""
    q = torch.randn(8, 128, device="cuda", dtype=torch.float16)
    k, v = (torch.randn(300, 8, 128, device="cuda", dtype=torch.float16) for _ in range(2))
    scores = torch.einsum("hd,nhd->hn", q.float(), k.float()) / 128**0.5
    true = torch.einsum("hn,nhd->hd", scores.softmax(-1), v.float())
    return flashinfer.single_decode_with_kv_cache(q, k, v), true


def main() -> None:
    """Run the operator, and compare."""
    torch.manual_seed(1)
    found, true = {"rmsnorm": rmsnorm, "silu": silu, "decode": decode}[sys.argv[1]]()
    torch.cuda.synchronize()
    print("right" if torch.allclose(found.float(), true, atol=2e-2, rtol=2e-2) else "wrong")


if __name__ == "__main__":
    main()
