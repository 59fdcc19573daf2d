// A kernel that runs in the body of a conditional node of a graph, and one beside it.
#include "graph_nodes.cuh"

__global__ void first(int* data) { data[0] += 1; }
__global__ void in_body(int* data, cudaGraphConditionalHandle again) {
  data[1] += 1;
  cudaGraphSetConditional(again, data[1] % 3 != 0);
}

int main() {
  int* data = nullptr;
  CHECK(cudaMalloc(&data, 2 * sizeof(int)));
  CHECK(cudaMemset(data, 0, 2 * sizeof(int)));
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle again;
  CHECK(cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault));
  void* arguments[] = {&data, &again};
  const cudaGraphNode_t before = add_kernel(graph, reinterpret_cast<void*>(first), arguments);
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = again;
  parameters.conditional.type = cudaGraphCondTypeWhile;
  parameters.conditional.size = 1;
  cudaGraphNode_t loop;
  CHECK(cudaGraphAddNode(&loop, graph, &before, nullptr, 1, &parameters));
  add_kernel(parameters.conditional.phGraph_out[0], reinterpret_cast<void*>(in_body), arguments);
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(executable, nullptr));
  int result[2];
  CHECK(cudaMemcpy(result, data, sizeof result, cudaMemcpyDeviceToHost));
  EXPECT(result[0] == 2 && result[1] == 6);
  std::printf("ok\n");
  return 0;
}
