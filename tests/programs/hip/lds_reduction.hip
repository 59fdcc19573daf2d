// Sums of a work-group by a tree in LDS, with a barrier at each level.
#include "hip_check.hpp"

constexpr int k_threads = 256;

template <typename T>
__global__ void sum_blocks(const T* in, T* out) {
  __shared__ T partial[k_threads];
  const int lane = static_cast<int>(threadIdx.x);
  partial[lane] = in[blockIdx.x * k_threads + lane];
  __syncthreads();
  for (int stride = k_threads / 2; stride > 0; stride /= 2) {
    if (lane < stride) partial[lane] += partial[lane + stride];
    __syncthreads();
  }
  if (lane == 0) out[blockIdx.x] = partial[0];
}

template <typename T>
void check(Tally& tally, const char* what) {
  constexpr int k_blocks = 37;
  std::vector<T> in(k_blocks * k_threads), wanted(k_blocks);
  Random source;
  for (T& value : in) value = static_cast<T>(source.whole(-1000, 1000));  // sums are exact in any order
  for (int i = 0; i < k_blocks * k_threads; ++i) wanted[i / k_threads] += in[i];
  const DeviceArray<T> device_in(in), device_out(k_blocks);
  sum_blocks<<<k_blocks, k_threads>>>(device_in.get(), device_out.get());
  HIP_DONE();
  tally.equal(what, device_out.read(), wanted);
}

int main() {
  Tally tally("lds_reduction");
  check<int>(tally, "int");
  check<float>(tally, "float");
  check<double>(tally, "double");
  check<long long>(tally, "long long");
  return tally.finish();
}
