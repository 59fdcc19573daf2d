// A kernel that launches another one on the device: what it waits for and writes lies with the device's own runtime.
// nvcc: -rdc=true -lcudadevrt
#include "check.cuh"

__global__ void inner(int* data) { data[threadIdx.x] = 7; }
__global__ void outer(int* data) {
  if (threadIdx.x == 0) inner<<<1, 32>>>(data);
}

int main() {
  int* data = nullptr;
  CHECK(cudaMalloc(&data, 32 * sizeof(int)));
  outer<<<1, 32>>>(data);
  CHECK(cudaDeviceSynchronize());
  int first = 0;
  CHECK(cudaMemcpy(&first, data, sizeof first, cudaMemcpyDeviceToHost));
  EXPECT(first == 7);
  std::printf("ok\n");
  return 0;
}
