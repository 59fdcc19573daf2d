// Of programs/fills.cu: the kernel only launches another one, which writes when this one has ended. Needs -rdc=true and cudadevrt.
#include <cstddef>

constexpr int k_blocks = 2112;
constexpr int k_threads = 512;

__global__ void write(uint4* out, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count; i += k_blocks * k_threads) {
    const unsigned value = static_cast<unsigned>(i) | 0x01010101u;
    out[i] = {value, value, value, value};
  }
}

extern "C" __global__ void fill(uint4* out, std::size_t count) {
  if (blockIdx.x == 0 && threadIdx.x == 0) write<<<k_blocks, k_threads, 0, cudaStreamTailLaunch>>>(out, count);
}
