// A child graph of an executable graph is exchanged between two launches: what stands in it is not known from then on.
#include "graph_nodes.cuh"

__global__ void add(int* data, int what) { *data += what; }
__global__ void target(int* data) { *data *= 3; }

static cudaGraph_t adding(int*& data, int& what) {
  void* arguments[] = {&data, &what};
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  add_kernel(graph, reinterpret_cast<void*>(add), arguments);
  return graph;
}

int main() {
  int* data = nullptr;
  int value = 2;
  CHECK(cudaMalloc(&data, 4096));
  CHECK(cudaMemcpy(data, &value, sizeof value, cudaMemcpyDefault));
  int one = 1;
  int five = 5;
  void* arguments[] = {&data};
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  const cudaGraphNode_t first = add_kernel(graph, reinterpret_cast<void*>(target), arguments);
  cudaGraphNode_t child;
  CHECK(cudaGraphAddChildGraphNode(&child, graph, &first, 1, adding(data, one)));
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, nullptr));   // 2 * 3 + 1
  CHECK(cudaGraphExecChildGraphNodeSetParams(executable, child, adding(data, five)));
  CHECK(cudaGraphLaunch(executable, nullptr));   // 7 * 3 + 5
  CHECK(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDefault));
  EXPECT(value == 26);
  std::printf("ok\n");
  return 0;
}
