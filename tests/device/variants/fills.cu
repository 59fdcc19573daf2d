// Writes what programs/fills.cu's kernel does, in words of 4 bytes.
#include <cstddef>

extern "C" __global__ void fill(uint4* out, std::size_t count) {
  unsigned* const words = reinterpret_cast<unsigned*>(out);
  const std::size_t step = gridDim.x * std::size_t{blockDim.x};
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < 4 * count; i += step) {
    words[i] = static_cast<unsigned>(i / 4) | 0x01010101u;
  }
}
