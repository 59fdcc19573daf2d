// Graphs made by hand: a kernel that is made before what it waits for, one that waits for nothing, one in a child graph.
#include "graph_nodes.cuh"

__global__ void prepare(int* data) { data[threadIdx.x] += 7; }
__global__ void accumulate(int* out, const int* data) { out[threadIdx.x] += data[threadIdx.x]; }
__global__ void apart(int* other) { other[threadIdx.x] += 100; }
__global__ void inside(int* out) { out[threadIdx.x] += 1; }

int main() {
  int* data = nullptr;
  int* out = nullptr;
  int* other = nullptr;
  for (int** made : {&data, &out, &other}) {
    CHECK(cudaMalloc(made, 128 * sizeof(int)));
    CHECK(cudaMemset(*made, 0, 128 * sizeof(int)));
  }
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  void* of_out[] = {&out, &data};
  void* of_data[] = {&data};
  void* of_other[] = {&other};
  void* of_inside[] = {&out};
  const cudaGraphNode_t free_one = add_kernel(graph, reinterpret_cast<void*>(apart), of_other, 128);
  const cudaGraphNode_t last = add_kernel(graph, reinterpret_cast<void*>(accumulate), of_out, 128);
  const cudaGraphNode_t first = add_kernel(graph, reinterpret_cast<void*>(prepare), of_data, 128);
  CHECK(cudaGraphAddDependencies(graph, &first, &last, nullptr, 1));
  cudaGraph_t child;
  CHECK(cudaGraphCreate(&child, 0));
  add_kernel(child, reinterpret_cast<void*>(inside), of_inside, 128);
  cudaGraphNode_t child_node;
  CHECK(cudaGraphAddChildGraphNode(&child_node, graph, &last, 1, child));
  (void)free_one;
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int run = 0; run < 4; ++run) CHECK(cudaGraphLaunch(executable, nullptr));
  CHECK(cudaDeviceSynchronize());
  int result = 0;
  CHECK(cudaMemcpy(&result, out, sizeof result, cudaMemcpyDeviceToHost));
  EXPECT(result == 7 + 14 + 21 + 28 + 4);
  CHECK(cudaMemcpy(&result, other, sizeof result, cudaMemcpyDeviceToHost));
  EXPECT(result == 400);
  std::printf("ok\n");
  return 0;
}
