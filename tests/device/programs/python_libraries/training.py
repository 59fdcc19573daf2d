"""A transformer layer of PyTorch, trained for three steps by AdamW in bfloat16."""

from __future__ import annotations

import torch


def main() -> None:
    """Train on one batch, whose loss must fall."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(256, 4, 512, dropout=0.0, batch_first=True).cuda()
    optimiser = torch.optim.AdamW(layer.parameters(), lr=1e-3)
    data = torch.randn(4, 128, 256, device="cuda")
    losses = []
    for _ in range(3):
        optimiser.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.mse_loss(layer(data).float(), data.roll(1, 1))
        loss.backward()
        optimiser.step()
        losses.append(float(loss))
    print("right" if losses[-1] < losses[0] else "wrong")


if __name__ == "__main__":
    main()
