// Host memory that a kernel uses directly: allocated as pinned, and registered after the fact.
#include "hip_check.hpp"

__global__ void transform(const int* in, int* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = in[i] * 3 + 1;
}

void check(Tally& tally, const char* what, int* in, int* out, int count) {
  for (int i = 0; i < count; ++i) in[i] = i - 100, out[i] = 0;
  int *device_in = nullptr, *device_out = nullptr;
  HIP_OK(hipHostGetDevicePointer(reinterpret_cast<void**>(&device_in), in, 0));
  HIP_OK(hipHostGetDevicePointer(reinterpret_cast<void**>(&device_out), out, 0));
  transform<<<(count + 127) / 128, 128>>>(device_in, device_out, count);
  HIP_DONE();
  for (int i = 0; i < count; ++i) tally.equal(what, i, out[i], (i - 100) * 3 + 1);
}

int main() {
  constexpr int k_count = 4000;
  Tally tally("pinned_memory");
  for (const unsigned flags : {0u, 0u + hipHostMallocNonCoherent, 0u + hipHostMallocCoherent}) {
    int *in = nullptr, *out = nullptr;
    HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&in), k_count * sizeof(int), hipHostMallocMapped | flags));
    HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&out), k_count * sizeof(int), hipHostMallocMapped | flags));
    check(tally, "allocated", in, out, k_count);
    HIP_OK(hipHostFree(in));
    HIP_OK(hipHostFree(out));
  }
  std::vector<int> in(k_count), out(k_count);
  HIP_OK(hipHostRegister(in.data(), k_count * sizeof(int), hipHostRegisterMapped));
  HIP_OK(hipHostRegister(out.data(), k_count * sizeof(int), hipHostRegisterMapped));
  check(tally, "registered", in.data(), out.data(), k_count);
  HIP_OK(hipHostUnregister(in.data()));
  HIP_OK(hipHostUnregister(out.data()));
  return tally.finish();
}
