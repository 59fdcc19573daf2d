// Recursive device functions: return addresses and locals on the stack in scratch memory.
#include "hip_check.hpp"

__host__ __device__ __attribute__((noinline)) unsigned fibonacci(unsigned n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__host__ __device__ __attribute__((noinline)) unsigned depth_sum(unsigned depth, unsigned seed) {
  unsigned local[8];
  for (unsigned i = 0; i < 8; ++i) local[i] = seed * 31 + i * depth;
  const unsigned below = depth == 0 ? 0 : depth_sum(depth - 1, local[seed % 8]);
  unsigned sum = below;
  for (unsigned i = 0; i < 8; ++i) sum = sum * 7 + local[(i + below) % 8];  // after the call: locals must survive
  return sum;
}

__global__ void recurse(unsigned* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  out[2 * i] = fibonacci(static_cast<unsigned>(i % 11));
  out[2 * i + 1] = depth_sum(static_cast<unsigned>(i % 17), static_cast<unsigned>(i));
}

int main() {
  constexpr int k_count = 200;
  HIP_OK(hipDeviceSetLimit(hipLimitStackSize, 16384));
  const DeviceArray<unsigned> out(2 * k_count);
  recurse<<<4, 64>>>(out.get(), k_count);
  HIP_DONE();
  std::vector<unsigned> wanted(2 * k_count);
  for (int i = 0; i < k_count; ++i) {
    wanted[2 * i] = fibonacci(static_cast<unsigned>(i % 11));
    wanted[2 * i + 1] = depth_sum(static_cast<unsigned>(i % 17), static_cast<unsigned>(i));
  }
  Tally tally("recursion");
  tally.equal("out", out.read(), wanted);
  return tally.finish();
}
