// Behind the target a kernel runs until the program says so, others wait behind it, and the program copies and waits on other streams.
#include <chrono>

#include "check.cuh"

__global__ void target(int* data) { data[threadIdx.x] += 1; }
__global__ void spin(volatile int* flag) {
  while (*flag == 0) {
  }
}

int main() {
  int* data = nullptr;
  int* flag = nullptr;
  CHECK(cudaMalloc(&data, 4096));
  CHECK(cudaMemset(data, 0, 4096));
  int* found = nullptr;
  CHECK(cudaMallocHost(&flag, sizeof *flag));
  CHECK(cudaMallocHost(&found, 4096));
  *flag = 1;
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  spin<<<1, 1, 0, streams[0]>>>(flag);   // loaded before it has to wait
  CHECK(cudaDeviceSynchronize());
  *flag = 0;
  target<<<1, 32, 0, streams[1]>>>(data);
  spin<<<1, 1, 0, streams[0]>>>(flag);
  for (int i = 0; i < 500; ++i) target<<<1, 32, 0, streams[0]>>>(data);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  while (std::chrono::steady_clock::now() < end) {
    CHECK(cudaMemcpyAsync(found, data, 4096, cudaMemcpyDeviceToHost, streams[1]));
    CHECK(cudaStreamSynchronize(streams[1]));
    EXPECT(found[0] == 1);
  }
  *flag = 1;
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(found, data, 4096, cudaMemcpyDeviceToHost));
  EXPECT(found[0] == 501);
  std::printf("ok\n");
  return 0;
}
