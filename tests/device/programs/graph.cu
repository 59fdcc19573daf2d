// Three kernels in a graph that is recorded from a stream and launched many times; the graph itself is destroyed as
// soon as it is executable. The kernel in the middle reads what the first wrote in the same launch.
#include <vector>

#include "check.cuh"

__global__ void first(float* data, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] += 1.0f;
}
__global__ void middle(const float* data, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] += 2.0f * data[i];
}
__global__ void last(float* data, const float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = data[i] + 0.0f * out[i] + 1.0f;
}

int main() {
  const int count = 1 << 16;
  float* data = nullptr;
  float* out = nullptr;
  CHECK(cudaMalloc(&data, count * sizeof(float)));
  CHECK(cudaMalloc(&out, count * sizeof(float)));
  CHECK(cudaMemset(data, 0, count * sizeof(float)));
  CHECK(cudaMemset(out, 0, count * sizeof(float)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  first<<<count / 256, 256, 0, stream>>>(data, count);
  middle<<<count / 256, 256, 0, stream>>>(data, out, count);
  last<<<count / 256, 256, 0, stream>>>(data, out, count);
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  for (int i = 0; i < 5; ++i) CHECK(cudaGraphLaunch(executable, stream));
  std::vector<float> host(count);
  CHECK(cudaMemcpyAsync(host.data(), out, count * sizeof(float), cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  for (int i = 0; i < count; ++i) EXPECT(host[i] == 2.0f * (1 + 3 + 5 + 7 + 9));  // data is 1, 3, 5, 7, 9
  std::printf("ok\n");
  return 0;
}
