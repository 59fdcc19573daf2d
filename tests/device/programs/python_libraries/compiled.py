"""A kernel that torch.compile makes of element-wise operations and a sum; compares with plain torch."""

from __future__ import annotations

import torch


def plain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Compute what becomes one kernel."""
    return torch.relu(torch.sin(x) * y + 1.0).sum(dim=1)


def main() -> None:
    """Run the compiled function three times, and compare the last result."""
    mix = torch.compile(plain)
    x, y = (torch.randn(1024, 4096, device="cuda") for _ in range(2))
    for _ in range(3):
        z = mix(x, y)
    torch.cuda.synchronize()
    print("ok" if torch.allclose(z, plain(x, y), atol=1e-1, rtol=1e-3) else "wrong")


if __name__ == "__main__":
    main()
