// Integer atomics: counts in LDS, then added to memory; and every other integer atomic once.
#include "hip_check.hpp"

constexpr int k_bins = 97;
constexpr int k_count = 20000;

__global__ void histogram(const int* values, unsigned* bins) {
  __shared__ unsigned local[k_bins];
  for (unsigned i = threadIdx.x; i < k_bins; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < k_count; i += gridDim.x * blockDim.x)
    atomicAdd(&local[values[i]], 1u);
  __syncthreads();
  for (unsigned i = threadIdx.x; i < k_bins; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

template <typename T>
__global__ void every_atomic(T* results, const T* values, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  atomicAdd(&results[0], values[i]);
  atomicSub(&results[1], values[i]);
  atomicMin(&results[2], values[i]);
  atomicMax(&results[3], values[i]);
  atomicAnd(&results[4], values[i]);
  atomicOr(&results[5], values[i]);
  atomicXor(&results[6], values[i]);
  atomicExch(&results[7 + i], values[i]);
}

__global__ void wrapping(unsigned* results) {
  atomicInc(&results[0], 12);
  atomicDec(&results[1], 12);
}

template <typename T>
void check_every_atomic(Tally& tally, const char* what) {
  constexpr int k_values = 300;
  std::vector<T> values(k_values), wanted(7 + k_values);
  Random source;
  for (T& value : values) value = static_cast<T>(source.bits() >> 5);
  wanted[4] = static_cast<T>(~T{0});
  std::vector<T> start = wanted;
  for (int i = 0; i < k_values; ++i) {
    wanted[0] += values[i];
    wanted[1] -= values[i];
    wanted[2] = values[i] < wanted[2] ? values[i] : wanted[2];
    wanted[3] = values[i] > wanted[3] ? values[i] : wanted[3];
    wanted[4] &= values[i];
    wanted[5] |= values[i];
    wanted[6] ^= values[i];
    wanted[7 + i] = values[i];
  }
  const DeviceArray<T> device_values(values), results(start);
  every_atomic<<<5, 64>>>(results.get(), device_values.get(), k_values);
  HIP_DONE();
  tally.equal(what, results.read(), wanted);
}

int main() {
  Tally tally("histogram_int");
  std::vector<int> values(k_count);
  std::vector<unsigned> wanted(k_bins);
  Random source;
  for (int& value : values) ++wanted[value = source.whole(0, k_bins)];
  const DeviceArray<int> device_values(values);
  DeviceArray<unsigned> bins(k_bins);
  bins.clear();
  histogram<<<7, 128>>>(device_values.get(), bins.get());
  HIP_DONE();
  tally.equal("bins", bins.read(), wanted);
  check_every_atomic<unsigned>(tally, "u32");
  check_every_atomic<unsigned long long>(tally, "u64");
  check_every_atomic<int>(tally, "i32");
  const DeviceArray<unsigned> wrapped(std::vector<unsigned>{5, 5});
  wrapping<<<1, 100>>>(wrapped.get());
  HIP_DONE();
  tally.equal("inc, dec", wrapped.read(), {(5 + 100) % 13, (5 + 13 * 100 - 100) % 13});
  return tally.finish();
}
