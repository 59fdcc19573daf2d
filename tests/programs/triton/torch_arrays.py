"""Arrays for Triton in the memory of a GPU that torch has: tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton

if TYPE_CHECKING:
    import numpy as np

FP8 = ("float8_e4m3fn", 1.0)  # a type of 8-bit floats, and the value of its byte 0x38


class Array(torch.Tensor):
    """A tensor that is read as an array of numpy."""

    @staticmethod
    def __new__(cls, values: np.ndarray[Any, Any], dtype: str | None = None) -> Array:
        """dtype: torch's name for a type that numpy does not have."""
        tensor = torch.from_numpy(values.copy())
        tensor = tensor.view(getattr(torch, dtype)) if dtype else tensor
        return tensor.cuda().as_subclass(cls)

    def read(self) -> np.ndarray[Any, Any]:
        return self.cpu().numpy()


def _allocate(size: int, _alignment: int, _stream: int | None) -> torch.Tensor:
    return torch.empty(size, dtype=torch.int8, device="cuda")


triton.set_allocator(_allocate)  # descriptors that a kernel makes lie in such memory
