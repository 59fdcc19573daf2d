// A graph that is changed before each launch, by the ways that there are: parameters of one node, of all nodes, off and on.
#include "check.cuh"

constexpr int k_count = 128;

__global__ void prepare(int* data, int value) { data[threadIdx.x] = value; }
__global__ void accumulate(int* out, const int* data, const unsigned char* marks, const int* more) {
  out[threadIdx.x] += data[threadIdx.x] + marks[threadIdx.x] + more[threadIdx.x];
}
int* data = nullptr;
int* out = nullptr;
int* source = nullptr;
int* more = nullptr;
unsigned char* marks = nullptr;
int value = 0;
void* of_prepare[] = {&data, &value};
void* of_accumulate[] = {&out, &data, &marks, &more};

cudaKernelNodeParams kernel(void* function, void** arguments) {
  cudaKernelNodeParams parameters{};
  parameters.func = function;
  parameters.gridDim = 1;
  parameters.blockDim = k_count;
  parameters.kernelParams = arguments;
  return parameters;
}

cudaMemsetParams mark(int with) {
  cudaMemsetParams parameters{};
  parameters.dst = marks;
  parameters.value = static_cast<unsigned>(with);
  parameters.elementSize = 1;
  parameters.width = k_count;
  parameters.height = 1;
  return parameters;
}

struct Nodes {
  cudaGraph_t graph;
  cudaGraphNode_t prepare, mark, copy, accumulate;
};

Nodes build() {
  Nodes made;
  CHECK(cudaGraphCreate(&made.graph, 0));
  const cudaKernelNodeParams first = kernel(reinterpret_cast<void*>(prepare), of_prepare);
  const cudaKernelNodeParams last = kernel(reinterpret_cast<void*>(accumulate), of_accumulate);
  const cudaMemsetParams marking = mark(0);
  CHECK(cudaGraphAddKernelNode(&made.prepare, made.graph, nullptr, 0, &first));
  CHECK(cudaGraphAddMemsetNode(&made.mark, made.graph, nullptr, 0, &marking));
  CHECK(cudaGraphAddMemcpyNode1D(&made.copy, made.graph, nullptr, 0, more, source, k_count * sizeof(int),
                                 cudaMemcpyDeviceToDevice));
  const cudaGraphNode_t before[] = {made.prepare, made.mark, made.copy};
  CHECK(cudaGraphAddKernelNode(&made.accumulate, made.graph, before, 3, &last));
  return made;
}

int main() {
  for (int** made : {&data, &out, &more}) {
    CHECK(cudaMalloc(made, k_count * sizeof(int)));
    CHECK(cudaMemset(*made, 0, k_count * sizeof(int)));
  }
  CHECK(cudaMalloc(&source, 2 * k_count * sizeof(int)));
  CHECK(cudaMemset(source, 0, 2 * k_count * sizeof(int)));
  const int thousand = 1000;
  CHECK(cudaMemcpy(source + k_count, &thousand, sizeof thousand, cudaMemcpyHostToDevice));
  CHECK(cudaMalloc(&marks, k_count));
  value = 1;
  const Nodes nodes = build();
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, nodes.graph, 0));
  int expected = 0;
  const auto launch = [&](int adds) {
    CHECK(cudaGraphLaunch(executable, nullptr));
    CHECK(cudaDeviceSynchronize());
    expected += adds;
    int result = 0;
    CHECK(cudaMemcpy(&result, out, sizeof result, cudaMemcpyDeviceToHost));
    EXPECT(result == expected);
  };
  launch(1);  // 0: as it was made

  value = 10;
  const cudaKernelNodeParams first = kernel(reinterpret_cast<void*>(prepare), of_prepare);
  CHECK(cudaGraphExecKernelNodeSetParams(executable, nodes.prepare, &first));
  launch(10);  // 1: one node

  const cudaMemsetParams marking = mark(3);
  CHECK(cudaGraphExecMemsetNodeSetParams(executable, nodes.mark, &marking));
  CHECK(cudaGraphExecMemcpyNodeSetParams1D(executable, nodes.copy, more, source + k_count, k_count * sizeof(int),
                                           cudaMemcpyDeviceToDevice));
  launch(1013);  // 2: nodes of other kinds

  value = 100;
  const Nodes other = build();
  cudaGraphExecUpdateResultInfo info{};
  CHECK(cudaGraphExecUpdate(executable, other.graph, &info));
  CHECK(cudaGraphDestroy(other.graph));
  launch(100);  // 3: all of them, by another graph

  CHECK(cudaGraphNodeSetEnabled(executable, nodes.prepare, 0));
  launch(100);  // 4: without one of them, which shows only in what it would have done
  CHECK(cudaGraphNodeSetEnabled(executable, nodes.prepare, 1));
  launch(100);  // 5: with it again

  std::printf("ok\n");
  return 0;
}
