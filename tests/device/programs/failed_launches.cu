// Launches that the driver refuses, before and between launches of the same kernel that run.
#include "check.cuh"

__global__ void target(int* data, int what) { *data += what; }

static void refused(int* data) {
  target<<<1, 4096>>>(data, 1000);  // no block has so many threads
  EXPECT(cudaGetLastError() != cudaSuccess);
}

int main() {
  int* data = nullptr;
  CHECK(cudaMalloc(&data, sizeof(int)));
  CHECK(cudaMemset(data, 0, sizeof(int)));
  refused(data);
  target<<<1, 1>>>(data, 1);
  CHECK(cudaGetLastError());
  refused(data);
  target<<<1, 1>>>(data, 10);
  CHECK(cudaDeviceSynchronize());
  int sum = 0;
  CHECK(cudaMemcpy(&sum, data, sizeof sum, cudaMemcpyDeviceToHost));
  EXPECT(sum == 11);
  std::printf("ok\n");
  return 0;
}
