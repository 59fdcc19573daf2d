// A kernel that prints more than the default buffer holds, and asserts what is true.
#include <cassert>

#include "check.cuh"

__global__ void speak(int* out, int lines) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  assert(out[i] == 0);
  for (int line = 0; line < lines; ++line) printf("line %d of work-item %d\n", line, i);
  out[i] = i;
}

int main() {
  constexpr int k_count = 4096;
  CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 8 << 20));
  int* out = nullptr;
  CHECK(cudaMalloc(&out, k_count * sizeof(int)));
  CHECK(cudaMemset(out, 0, k_count * sizeof(int)));
  speak<<<k_count / 256, 256>>>(out, 8);
  CHECK(cudaDeviceSynchronize());
  std::printf("ok\n");
  return 0;
}
