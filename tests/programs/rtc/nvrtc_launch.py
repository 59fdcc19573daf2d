"""Compiles a template with NVRTC and launches it through the driver.

usage: nvrtc_launch.py LIBRARY ARCHITECTURE CUBIN|PTX     PTX needs a virtual architecture (compute_90)
"""

import ctypes
import sys

from nvrtc_program import compile_source

COUNT = 1000
cuda = ctypes.CDLL("libcuda.so.1")


def call(function, *arguments):
    result = getattr(cuda, function)(*arguments)
    assert result == 0, (function, result)


def main():
    library, architecture, form = sys.argv[1:]
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    code, symbol = compile_source(ctypes.CDLL(library), architecture, form)
    call("cuModuleLoadData", ctypes.byref(module), code)
    call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
    floats = ctypes.c_float * COUNT
    left, right, out = floats(*range(COUNT)), floats(*([2] * COUNT)), floats()
    buffers = [ctypes.c_uint64() for _ in range(3)]
    for buffer, values in zip(buffers, (out, left, right), strict=True):
        call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(ctypes.sizeof(floats)))
        call("cuMemcpyHtoD_v2", buffer, values, ctypes.c_size_t(ctypes.sizeof(floats)))
    count = ctypes.c_int(COUNT)
    arguments = (ctypes.c_void_p * 4)(*(ctypes.addressof(each) for each in (*buffers, count)))
    call("cuLaunchKernel", function, 8, 1, 1, 128, 1, 1, 0, None, arguments, None)
    call("cuMemcpyDtoH_v2", out, buffers[0], ctypes.c_size_t(ctypes.sizeof(floats)))
    print("right" if all(out[i] == (i + 2) * 3 for i in range(COUNT)) else "wrong")


if __name__ == "__main__":
    main()
