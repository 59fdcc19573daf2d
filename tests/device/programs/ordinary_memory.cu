// Kernels on ordinary memory of the host, where the device reaches that by itself (HMM, ATS), and says so; elsewhere on managed memory.
#include "graph_nodes.cuh"

constexpr int k_words = 128;

__global__ void alone(int* words) { words[threadIdx.x] += 1; }
__global__ void in_graph(int* words) { words[threadIdx.x] += 1; }

int main() {
  int reaches = 0;
  CHECK(cudaDeviceGetAttribute(&reaches, cudaDevAttrPageableMemoryAccess, 0));
  int* words = static_cast<int*>(std::malloc(k_words * sizeof(int)));
  if (reaches == 0) CHECK(cudaMallocManaged(&words, k_words * sizeof(int)));
  for (int i = 0; i < k_words; ++i) words[i] = i;
  alone<<<1, k_words>>>(words);
  CHECK(cudaDeviceSynchronize());
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  void* given[] = {&words};
  add_kernel(graph, reinterpret_cast<void*>(in_graph), given, k_words);
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, nullptr));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < k_words; ++i) EXPECT(words[i] == i + 2);
  std::printf("reaches %d\n", reaches);
  return 0;
}
