// Managed memory: one pointer for both sides, in turns.
#include "hip_check.hpp"

__managed__ int counter = 5;

__global__ void increment(int* data, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] += i;
  if (i == 0) ++counter;
}

int main() {
  constexpr int k_count = 3000;
  Tally tally("managed_memory");
  int* data = nullptr;
  HIP_OK(hipMallocManaged(reinterpret_cast<void**>(&data), k_count * sizeof(int)));
  for (int i = 0; i < k_count; ++i) data[i] = 1;
  for (int round = 1; round <= 3; ++round) {
    increment<<<(k_count + 127) / 128, 128>>>(data, k_count);
    HIP_DONE();
    for (int i = 0; i < k_count; ++i) tally.equal("data", i, data[i], 1 + (round - 1) * 3 + round * i);
    for (int i = 0; i < k_count; ++i) data[i] += 3;
  }
  tally.equal("counter", 0, counter, 8);
  HIP_OK(hipFree(data));
  return tally.finish();
}
