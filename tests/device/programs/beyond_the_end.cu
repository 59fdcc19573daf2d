// A kernel that writes beyond the end of its memory, as far as nobody notices.
#include "check.cuh"

__global__ void overrun(float* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] += static_cast<float>(i);
}

int main() {
  constexpr int k_count = 1000;
  float* out = nullptr;
  CHECK(cudaMalloc(&out, k_count * sizeof(float)));
  CHECK(cudaMemset(out, 0, k_count * sizeof(float)));
  for (int run = 0; run < 3; ++run) overrun<<<6, 256>>>(out, k_count + 500);
  CHECK(cudaDeviceSynchronize());
  float last = 0;
  CHECK(cudaMemcpy(&last, out + k_count - 1, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 3 * 999);
  std::printf("ok\n");
  return 0;
}
