// A graph that a kernel launches on the device: no call of the program's shows that its kernel runs.
// nvcc: -rdc=true -lcudadevrt
#include "check.cuh"

__global__ void target(int* data) { *data += 7; }
__global__ void launcher(cudaGraphExec_t inner) { cudaGraphLaunch(inner, cudaStreamGraphFireAndForget); }

int main() {
  int* data = nullptr;
  CHECK(cudaMalloc(&data, sizeof(int)));
  CHECK(cudaMemset(data, 0, sizeof(int)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  cudaGraphExec_t inner;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  target<<<1, 1, 0, stream>>>(data);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&inner, graph, cudaGraphInstantiateFlagDeviceLaunch));
  CHECK(cudaGraphUpload(inner, stream));
  cudaGraphExec_t outer;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  launcher<<<1, 1, 0, stream>>>(inner);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&outer, graph, 0));
  CHECK(cudaGraphLaunch(outer, stream));
  CHECK(cudaDeviceSynchronize());
  int value = 0;
  CHECK(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost));
  EXPECT(value == 7);
  std::printf("ok\n");
  return 0;
}
