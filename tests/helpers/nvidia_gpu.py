"""What tests on a real NVIDIA GPU share."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

TRITON_SAXPY = """
import torch, triton
import triton.language as tl

@triton.jit
def saxpy(x, y, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(y + at, tl.load(y + at, mask) + factor * tl.load(x + at, mask), mask)

x = torch.randn(100_000, device="cuda")
y = torch.randn(100_000, device="cuda")
for step in range(4):
    saxpy[(triton.cdiv(100_000, 1024),)](x, y, 100_000, 2.0, BLOCK=1024)
torch.cuda.synchronize()
print("ok")
"""


def why_none() -> str:
    """Why nothing can run on such a GPU here; empty where it can."""
    if not Path("/dev/nvidiactl").exists():
        return "no NVIDIA GPU (/dev/nvidiactl is not there)"
    return "" if shutil.which("nvcc") else "no nvcc on PATH"


def gpu_count() -> int:
    """How many NVIDIA GPUs this machine has, whichever of them programs are shown."""
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=True)
    return len(listed.stdout.splitlines())


def spread_over_gpus(worker: int) -> None:
    """Make another GPU the first one for each worker of a run, in turn; what the user has chosen stays."""
    if why_none() or not shutil.which("nvidia-smi") or "CUDA_VISIBLE_DEVICES" in os.environ:
        return
    count = gpu_count()
    if count > 1:
        turned = (str((worker + i) % count) for i in range(count))
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(turned)


@cache
def architecture() -> str:
    """The first GPU's, as nvcc calls it."""
    told = subprocess.run(
        ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return "sm_" + told.stdout.split()[0].replace(".", "")
