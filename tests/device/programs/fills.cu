// fills MIB: writes to each byte of an array, which held zeros, a byte that is not zero. Nothing is read.
#include <cstdint>
#include <cstdlib>

#include "check.cuh"

constexpr int k_blocks = 2112;
constexpr int k_threads = 512;

extern "C" __global__ void fill(uint4* out, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count; i += k_blocks * k_threads) {
    const unsigned value = static_cast<unsigned>(i) | 0x01010101u;
    out[i] = {value, value, value, value};
  }
}

int main(int, char** words) {
  const std::size_t bytes = std::strtoull(words[1], nullptr, 10) << 20;
  uint4* out = nullptr;
  CHECK(cudaMalloc(&out, bytes));
  CHECK(cudaMemset(out, 0, bytes));
  fill<<<k_blocks, k_threads>>>(out, bytes / sizeof *out);
  CHECK(cudaDeviceSynchronize());
  std::printf("ok\n");
  return 0;
}
