"""Runs Triton without torch: a driver for the first GPU, and arrays in its memory."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from triton.backends.amd.driver import HIPDriver, HIPLauncher, HIPUtils
from triton.runtime import driver

_TO_DEVICE, _TO_HOST = 1, 2
_hip = ctypes.CDLL("libamdhip64.so")


def _check(code: int) -> None:
    if code != 0:
        raise RuntimeError(f"HIP error {code}")


class _Driver(HIPDriver):
    """Triton's own, without the parts that ask torch."""

    def __init__(self) -> None:
        self.utils = HIPUtils()
        self.launcher_cls = HIPLauncher
        self.get_current_device = lambda: 0
        self.get_current_stream = lambda _device: 0

    def get_active_torch_device(self) -> None:
        return None


class _Type(str):
    """The name of a type. Descriptors ask for its size, too."""

    def __new__(cls, name: str, itemsize: int) -> _Type:
        made = super().__new__(cls, name)
        made.itemsize = itemsize
        return made

    itemsize: int


class Array:
    """An array in the GPU's memory, as far as Triton looks at one."""

    def __init__(self, values: np.ndarray[Any, Any], dtype: str | None = None) -> None:
        """dtype: Triton's name for a type that numpy does not have."""
        self.shape, self._type = values.shape, values.dtype
        self.dtype = _Type(dtype or str(values.dtype), values.itemsize)
        self._size = ctypes.c_size_t(values.nbytes)
        self._address = ctypes.c_void_p()
        _check(_hip.hipMalloc(ctypes.byref(self._address), self._size))
        values = np.ascontiguousarray(values)
        _check(_hip.hipMemcpy(self._address, ctypes.c_void_p(values.ctypes.data), self._size, _TO_DEVICE))

    def data_ptr(self) -> int:
        return self._address.value or 0

    def read(self) -> np.ndarray[Any, Any]:
        values = np.empty(self.shape, self._type)
        _check(_hip.hipDeviceSynchronize())
        _check(_hip.hipMemcpy(ctypes.c_void_p(values.ctypes.data), self._address, self._size, _TO_HOST))
        return values


class View:
    """Some elements of an array, described as torch's tensors are."""

    def __init__(
        self, array: Array, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0
    ) -> None:
        """strides, offset: in elements."""
        self.shape, self.dtype = shape, array.dtype
        self._array, self._strides, self._offset = array, strides, offset

    def data_ptr(self) -> int:
        return self._array.data_ptr() + self._offset * self.dtype.itemsize

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def storage_offset(self) -> int:
        return self._offset


FP8 = ("fp8e4b8", 0.5)  # a type of 8-bit floats, and the value of its byte 0x38
driver.set_active(_Driver())
