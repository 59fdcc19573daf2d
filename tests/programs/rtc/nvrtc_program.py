"""Compiles a template with NVRTC, as CuPy does: by a library that it opens.

usage: nvrtc_program.py LIBRARY ARCHITECTURE OUTPUT [alone]
Writes the machine code, and prints the kernel's symbol. alone: of a source that nvcc refuses.
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
# What PyTorch's jiterator passes begins so, too: nvcc includes headers that define the same.
ALONE = b"""typedef long long int int64_t;
#define NAN __int_as_float(0x7fffffff)
namespace std { template <typename T> T doubled(T x) { return x + x; } }
extern "C" __global__ void alone(float* out, int64_t count) {
  const int64_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = std::doubled(out[i]);
}
"""


def compile_source(nvrtc, architecture, form="CUBIN", *, alone=False):
    """Return the machine code, or what else ``form`` names, and the kernel's symbol."""

    def call(function, *arguments):
        result = getattr(nvrtc, f"nvrtc{function}")(*arguments)
        assert result == 0, (function, result)

    def texts(*values):
        return (ctypes.c_char_p * len(values))(*values)

    program, size, symbol = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_char_p()
    options = [b"--gpu-architecture=" + architecture.encode(), b"-DFACTOR=3", b"--std=c++17"]
    if alone:
        call("CreateProgram", ctypes.byref(program), ALONE, None, 0, None, None)
        options.append(b"-default-device")
        symbol.value = b"alone"
    else:
        names = texts(b"blend/blend.h")
        call("CreateProgram", ctypes.byref(program), SOURCE, b"blend.cu", 1, texts(HEADER), names)
        call("AddNameExpression", program, NAME)
    call("CompileProgram", program, len(options), texts(*options))
    if not alone:
        call("GetLoweredName", program, NAME, ctypes.byref(symbol))
    call(f"Get{form}Size", program, ctypes.byref(size))
    code = ctypes.create_string_buffer(size.value)
    call(f"Get{form}", program, code)
    told = symbol.value.decode()
    call("DestroyProgram", ctypes.byref(program))
    return code.raw, told


if __name__ == "__main__":
    code, symbol = compile_source(ctypes.CDLL(sys.argv[1]), sys.argv[2], alone=sys.argv[4:] == ["alone"])
    Path(sys.argv[3]).write_bytes(code)
    print(symbol)
