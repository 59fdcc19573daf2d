// Memory that the driver did not free, as a graph was being recorded: the kernel behind it still uses it.
#include "check.cuh"

__global__ void target(int* data) { *data += 3; }

int main() {
  int* data = nullptr;
  CHECK(cudaMalloc(&data, sizeof(int)));
  CHECK(cudaMemset(data, 0, sizeof(int)));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT(cudaFree(data) != cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);  // the call has spoiled it
  cudaGetLastError();
  target<<<1, 1>>>(data);
  CHECK(cudaDeviceSynchronize());
  int value = 0;
  CHECK(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost));
  EXPECT(value == 3);
  std::printf("ok\n");
  return 0;
}
