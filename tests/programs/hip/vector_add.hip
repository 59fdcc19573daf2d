// The first program that anybody writes.
#include "hip_check.hpp"

__global__ void add(const float* a, const float* b, float* c, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) c[i] = a[i] + b[i];
}

int main() {
  constexpr int k_count = 10007;
  std::vector<float> a(k_count), b(k_count), wanted(k_count);
  Random source;
  for (int i = 0; i < k_count; ++i) {
    a[i] = static_cast<float>(source.real(-1, 1));
    b[i] = static_cast<float>(source.real(-1, 1));
    wanted[i] = a[i] + b[i];
  }
  const DeviceArray<float> device_a(a), device_b(b), device_c(k_count);
  add<<<(k_count + 255) / 256, 256>>>(device_a.get(), device_b.get(), device_c.get(), k_count);
  HIP_DONE();
  Tally tally("vector_add");
  tally.equal("c", device_c.read(), wanted);
  return tally.finish();
}
