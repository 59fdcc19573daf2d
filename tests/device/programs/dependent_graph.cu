// A graph whose kernels may begin before the one before them has ended (programmatic dependent launch).
#include "check.cuh"

__global__ void first(int* data) {
  cudaTriggerProgrammaticLaunchCompletion();
  data[threadIdx.x] += 1;
}
__global__ void second(int* data) {
  cudaGridDependencySynchronize();
  data[threadIdx.x] *= 3;
}

int main() {
  int* data = nullptr;
  CHECK(cudaMalloc(&data, 128 * sizeof(int)));
  CHECK(cudaMemset(data, 0, 128 * sizeof(int)));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 128;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  first<<<1, 128, 0, stream>>>(data);
  CHECK(cudaLaunchKernelEx(&config, second, data));
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int run = 0; run < 3; ++run) CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  int last = 0;
  CHECK(cudaMemcpy(&last, data + 127, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 39);
  std::printf("ok\n");
  return 0;
}
