// Reads tables that nobody changes after the program has started, one that the host sets, and writes a variable with what
// it holds already. The macros make variants of the kernel.
#include <vector>

#include "check.cuh"

#ifndef FACTOR
#define FACTOR 2.0f
#endif
#ifndef ADDEND
#define ADDEND 5.0f
#endif
#ifndef SET
#define SET 0.0f
#endif

__constant__ float factors[4] = {FACTOR, 3.0f, 4.0f, 5.0f};
__device__ float addends[4] = {ADDEND, 6.0f, 7.0f, 8.0f};
__constant__ float set_by_host[4] = {SET, 0.0f, 0.0f, 0.0f};
__device__ float again[512];
__device__ unsigned runs;

__global__ void look_up(const float* x, float* y, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i] * factors[i % 4] + addends[i % 4] + set_by_host[i % 4];
#ifdef PEEK
  if (i == count - 1) y[i] += x[count];
#endif
#ifndef SKIP_AGAIN
  if (i < 512) again[i] = x[i] + 1.0f;
#endif
  if (i == 0) ++runs;
#ifdef OVERRUN
  if (i == 0) y[count + OVERRUN] = 1.0f;
#endif
}

int main() {
  const int count = 100'003;   // ends in the middle of everything
  float* x = nullptr;
  float* y = nullptr;
  CHECK(cudaMalloc(&x, count * sizeof(float)));
  CHECK(cudaMalloc(&y, count * sizeof(float)));
  const std::vector<float> ones(count, 1.0f);
  CHECK(cudaMemcpy(x, ones.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(y, 0, count * sizeof(float)));
  const float host[4] = {1.0f, 1.0f, 1.0f, 1.0f};
  CHECK(cudaMemcpyToSymbol(set_by_host, host, sizeof host));
  for (int i = 0; i < 3; ++i) look_up<<<(count + 255) / 256, 256>>>(x, y, count);
  CHECK(cudaDeviceSynchronize());
  float first = 0;
  CHECK(cudaMemcpy(&first, y, sizeof first, cudaMemcpyDeviceToHost));
  EXPECT(first == 8.0f);
  std::printf("ok\n");
  return 0;
}
