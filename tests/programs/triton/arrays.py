"""Arrays for Triton: torch's tensors where torch finds a GPU, else arrays in HIP's memory."""

from __future__ import annotations

try:
    import torch
except ImportError:
    torch = None

if torch is not None and torch.cuda.is_available():
    from torch_arrays import FP8, Array
else:
    from hip_arrays import FP8, Array

__all__ = ["FP8", "Array"]
