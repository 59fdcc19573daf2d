// Floating-point atomics, in LDS and in memory; sums of small whole numbers are exact in any order.
#include "hip_check.hpp"

constexpr int k_bins = 31;
constexpr int k_count = 6000;

template <typename T>
__global__ void histogram(const int* bin_of, const T* weights, T* bins) {
  __shared__ T local[k_bins];
  for (unsigned i = threadIdx.x; i < k_bins; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < k_count; i += gridDim.x * blockDim.x)
    atomicAdd(&local[bin_of[i]], weights[i]);
  __syncthreads();
  for (unsigned i = threadIdx.x; i < k_bins; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

// The hardware's own instruction instead of a compare-and-swap loop.
template <typename T>
__global__ void histogram_unsafe(const int* bin_of, const T* weights, T* bins) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < k_count; i += gridDim.x * blockDim.x)
    unsafeAtomicAdd(&bins[bin_of[i]], weights[i]);
}

template <typename T>
void check(Tally& tally, const char* what) {
  std::vector<int> bin_of(k_count);
  std::vector<T> weights(k_count), wanted(k_bins);
  Random source;
  for (int i = 0; i < k_count; ++i) {
    bin_of[i] = source.whole(0, k_bins);
    weights[i] = static_cast<T>(source.whole(-9, 10)) / 4;
    wanted[bin_of[i]] += weights[i];
  }
  const DeviceArray<int> device_bin_of(bin_of);
  const DeviceArray<T> device_weights(weights);
  for (const bool unsafe : {false, true}) {
    DeviceArray<T> bins(k_bins);
    bins.clear();
    if (unsafe)
      histogram_unsafe<<<5, 128>>>(device_bin_of.get(), device_weights.get(), bins.get());
    else
      histogram<<<5, 128>>>(device_bin_of.get(), device_weights.get(), bins.get());
    HIP_DONE();
    tally.equal(what, bins.read(), wanted);
  }
}

int main() {
  Tally tally("histogram_float");
  check<float>(tally, "float");
  check<double>(tally, "double");
  return tally.finish();
}
