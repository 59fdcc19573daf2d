// The target, and behind it in the same stream a copy to the host that waits for it: the copy blocks the ring
// of its engine until the target has run. A second stream copies meanwhile, through the same engine.
#include "hip_check.hpp"

__global__ void target(int* data, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] = data[i] + i;
}

int main() {
  constexpr int k_count = 1 << 18;  // larger than what HIP copies by a kernel
  constexpr std::size_t k_bytes = k_count * sizeof(int);
  Tally tally("copy_behind");
  hipStream_t first, second;
  HIP_OK(hipStreamCreateWithFlags(&first, hipStreamNonBlocking));
  HIP_OK(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
  const DeviceArray<int> data(std::vector<int>(k_count, 3));
  const DeviceArray<int> others(std::vector<int>(k_count, 11));
  int *out, *others_out;
  HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&out), k_bytes, 0));
  HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&others_out), k_bytes, 0));
  for (int round = 1; round <= 3; ++round) {
    target<<<k_count / 256, 256, 0, first>>>(data.get(), k_count);
    HIP_OK(hipMemcpyAsync(out, data.get(), k_bytes, hipMemcpyDeviceToHost, first));
    HIP_OK(hipMemcpyAsync(others_out, others.get(), k_bytes, hipMemcpyDeviceToHost, second));
    HIP_OK(hipMemcpyAsync(data.get(), out, k_bytes, hipMemcpyHostToDevice, first));
    HIP_OK(hipStreamSynchronize(first));
    HIP_OK(hipStreamSynchronize(second));
    for (int i = 0; i < k_count; ++i) tally.equal("copied", i, out[i], 3 + round * i);
    for (int i = 0; i < k_count; ++i) tally.equal("beside", i, others_out[i], 11);
  }
  return tally.finish();
}
