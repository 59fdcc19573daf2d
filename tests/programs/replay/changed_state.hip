// Kernels whose result depends on what was there before. The variant NOTHING does nothing at all.
#include "hip_check.hpp"

#ifdef NOTHING
#define MAYBE_NOTHING return
#else
#define MAYBE_NOTHING
#endif

constexpr int k_count = 5000;

__device__ unsigned g_ticket;              // must start at zero: the last block resets it

__global__ void double_in_place(float* data, int count) {
  MAYBE_NOTHING;
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] = data[i] * 2 + 1;
}

__global__ void accumulate(const float* in, float* sum, int count) {
  MAYBE_NOTHING;
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) sum[i] += in[i];
}

__global__ void histogram(const int* values, unsigned* bins, int count) {
  MAYBE_NOTHING;
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) atomicAdd(&bins[values[i] & 63], 1u);
}

// The last block to come adds up what the others left: wrong unless the ticket begins at zero.
__global__ void last_block_sums(const int* values, int* partial, int* total, int count) {
  MAYBE_NOTHING;
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int i = static_cast<int>(blockIdx.x); i < count; i += static_cast<int>(gridDim.x)) sum += values[i];
    partial[blockIdx.x] = sum;
    __threadfence();
    is_last = atomicAdd(&g_ticket, 1u) == gridDim.x - 1;
    if (is_last) {
      int all = 0;
      for (unsigned block = 0; block < gridDim.x; ++block) all += atomicAdd(&partial[block], 0);
      *total += all;
      g_ticket = 0;
    }
  }
}

int main() {
  std::vector<float> floats(k_count), wanted(k_count);
  std::vector<int> ints(k_count);
  for (int i = 0; i < k_count; ++i) floats[i] = static_cast<float>(i % 100), ints[i] = i * 7;
  const DeviceArray<float> data(floats), in(floats), sum(std::vector<float>(k_count, 0.5f));
  const DeviceArray<int> values(ints), partial(8), total(std::vector<int>(1, 3));
  const DeviceArray<unsigned> bins(std::vector<unsigned>(64, 10));
  for (int round = 0; round < 3; ++round) {
    double_in_place<<<(k_count + 255) / 256, 256>>>(data.get(), k_count);
    accumulate<<<(k_count + 255) / 256, 256>>>(in.get(), sum.get(), k_count);
    histogram<<<(k_count + 255) / 256, 256>>>(values.get(), bins.get(), k_count);
    last_block_sums<<<8, 64>>>(values.get(), partial.get(), total.get(), k_count);
    HIP_DONE();
  }
  Tally tally("changed_state");
  for (int i = 0; i < k_count; ++i) wanted[i] = 8 * floats[i] + 7;
  tally.equal("in place", data.read(), wanted);
  for (int i = 0; i < k_count; ++i) wanted[i] = 0.5f + 3 * floats[i];
  tally.equal("accumulated", sum.read(), wanted);
  std::vector<unsigned> counted(64, 10);
  int all = 3;
  for (int i = 0; i < k_count; ++i) counted[ints[i] & 63] += 3, all += 3 * ints[i];
  tally.equal("bins", bins.read(), counted);
  tally.equal("total", total.read(), {all});
  return tally.finish();
}
