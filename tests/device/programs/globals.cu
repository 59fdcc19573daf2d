// A __device__ counter, a __constant__ table, and a pointer to the counter as an argument.
#include "check.cuh"

__device__ unsigned counter = 5;
__device__ float weights[64];
__constant__ float table[16];

__global__ void use_globals(float* out) {
  const int i = threadIdx.x;
  atomicAdd(&counter, 1u);
  weights[i % 64] += table[i % 16];
  out[i] = weights[i % 64] * 2.0f;
}

int main() {
  float values[64];
  float constants[16];
  for (int i = 0; i < 64; ++i) values[i] = static_cast<float>(i);
  for (int i = 0; i < 16; ++i) constants[i] = 0.5f * static_cast<float>(i);
  CHECK(cudaMemcpyToSymbol(weights, values, sizeof values));
  CHECK(cudaMemcpyToSymbol(table, constants, sizeof constants));
  float* out = nullptr;
  CHECK(cudaMalloc(&out, 64 * sizeof(float)));
  for (int i = 0; i < 3; ++i) use_globals<<<1, 64>>>(out);
  unsigned counted = 0;
  CHECK(cudaMemcpyFromSymbol(&counted, counter, sizeof counted));
  EXPECT(counted == 5 + 3 * 64);
  CHECK(cudaMemcpy(values, out, sizeof values, cudaMemcpyDeviceToHost));
  EXPECT(values[17] == 2.0f * (17.0f + 3 * 0.5f));
  std::printf("ok\n");
  return 0;
}
