// __constant__ arrays, written by the host through their symbol.
#include "hip_check.hpp"

__constant__ float coefficients[16];
__constant__ int offsets[4] = {10, 20, 30, 40};

__global__ void polynomial(const float* in, float* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  float sum = 0;
  for (int k = 15; k >= 0; --k) sum = sum * in[i] + coefficients[k];
  out[i] = sum + static_cast<float>(offsets[i % 4]);
}

int main() {
  constexpr int k_count = 500;
  std::vector<float> in(k_count), wanted(k_count), values(16);
  for (int k = 0; k < 16; ++k) values[k] = static_cast<float>(k % 5 - 2);
  for (int i = 0; i < k_count; ++i) {
    in[i] = static_cast<float>(i % 3 - 1);  // -1, 0, 1: exact
    float sum = 0;
    for (int k = 15; k >= 0; --k) sum = sum * in[i] + values[k];
    wanted[i] = sum + static_cast<float>(i % 4 * 10 + 10);
  }
  HIP_OK(hipMemcpyToSymbol(HIP_SYMBOL(coefficients), values.data(), sizeof coefficients));
  const DeviceArray<float> device_in(in), out(k_count);
  polynomial<<<(k_count + 63) / 64, 64>>>(device_in.get(), out.get(), k_count);
  HIP_DONE();
  Tally tally("constant_memory");
  tally.equal("out", out.read(), wanted);
  std::vector<float> back(16);
  HIP_OK(hipMemcpyFromSymbol(back.data(), HIP_SYMBOL(coefficients), sizeof coefficients));
  tally.equal("read back", back, values);
  return tally.finish();
}
