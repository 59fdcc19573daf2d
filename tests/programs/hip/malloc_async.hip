// Stream-ordered allocation: memory comes from a pool, is used in stream order, and is used again after it was freed.
#include "hip_check.hpp"

__global__ void fill(int* data, int value, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] = value + i;
}

int main() {
  constexpr int k_count = 5000;
  Tally tally("malloc_async");
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  for (int round = 0; round < 4; ++round) {
    int *first = nullptr, *second = nullptr;
    HIP_OK(hipMallocAsync(reinterpret_cast<void**>(&first), k_count * sizeof(int), stream));
    HIP_OK(hipMallocAsync(reinterpret_cast<void**>(&second), k_count * sizeof(int), stream));
    fill<<<(k_count + 255) / 256, 256, 0, stream>>>(first, round * 100, k_count);
    HIP_OK(hipMemcpyAsync(second, first, k_count * sizeof(int), hipMemcpyDeviceToDevice, stream));
    HIP_OK(hipFreeAsync(first, stream));
    std::vector<int> got(k_count), wanted(k_count);
    HIP_OK(hipMemcpyAsync(got.data(), second, k_count * sizeof(int), hipMemcpyDeviceToHost, stream));
    HIP_OK(hipFreeAsync(second, stream));
    HIP_OK(hipStreamSynchronize(stream));
    for (int i = 0; i < k_count; ++i) wanted[i] = round * 100 + i;
    tally.equal("copy", got, wanted);
  }
  hipMemPool_t pool;
  HIP_OK(hipDeviceGetDefaultMemPool(&pool, 0));
  HIP_OK(hipMemPoolTrimTo(pool, 0));
  HIP_OK(hipStreamDestroy(stream));
  return tally.finish();
}
