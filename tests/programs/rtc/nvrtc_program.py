"""Compiles a template with NVRTC, as CuPy does: by a library that it opens.

usage: nvrtc_program.py LIBRARY ARCHITECTURE OUTPUT     writes the machine code, prints the kernel's symbol
"""

import ctypes
import sys
from pathlib import Path

SOURCE = b"""#include "blend/blend.h"

template <typename T>
__global__ void blend(T* out, const T* left, const T* right, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = blended(left[i], right[i]) * FACTOR;
}
"""
HEADER = b"""template <typename T>
__device__ T blended(T left, T right) {
  return left + right;
}
"""
NAME = b"blend<float>"


def compile_source(nvrtc, architecture, form="CUBIN"):
    """Return the machine code, or what else ``form`` names, and the kernel's symbol."""

    def call(function, *arguments):
        result = getattr(nvrtc, f"nvrtc{function}")(*arguments)
        assert result == 0, (function, result)

    def texts(*values):
        return (ctypes.c_char_p * len(values))(*values)

    program, size, symbol = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_char_p()
    names = texts(b"blend/blend.h")
    call("CreateProgram", ctypes.byref(program), SOURCE, b"blend.cu", 1, texts(HEADER), names)
    call("AddNameExpression", program, NAME)
    options = texts(b"--gpu-architecture=" + architecture.encode(), b"-DFACTOR=3", b"--std=c++17")
    call("CompileProgram", program, len(options), options)
    call("GetLoweredName", program, NAME, ctypes.byref(symbol))
    call(f"Get{form}Size", program, ctypes.byref(size))
    code = ctypes.create_string_buffer(size.value)
    call(f"Get{form}", program, code)
    told = symbol.value.decode()
    call("DestroyProgram", ctypes.byref(program))
    return code.raw, told


if __name__ == "__main__":
    code, symbol = compile_source(ctypes.CDLL(sys.argv[1]), sys.argv[2])
    Path(sys.argv[3]).write_bytes(code)
    print(symbol)
