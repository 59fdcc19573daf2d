// A kernel in a CUDA graph of a kind that cannot be gone through twice: a capture has to refuse it by name, and the
// program has to come out as ever.
//
//   odd_graphs child|host|conditional|memory|memory_behind|large
#include <string>

#include "graph_nodes.cuh"

__global__ void add(int* data, int what) { *data += what; }
__global__ void target(int* data) { *data *= 3; }

static void CUDART_CB nothing(void*) {}

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  int* data = nullptr;
  CHECK(cudaMalloc(&data, 4096));
  int value = 2;
  int expected = 9;  // 3 * (2 + 1)
  CHECK(cudaMemcpy(data, &value, sizeof value, cudaMemcpyDefault));
  int one = 1;
  void* arguments[] = {&data, &one};
  cudaGraph_t graph;
  cudaGraphNode_t before = nullptr;
  cudaGraphExec_t executable;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaGraphCreate(&graph, 0));
  if (mode == "child") {
    cudaGraph_t child;
    CHECK(cudaGraphCreate(&child, 0));
    add_kernel(child, reinterpret_cast<void*>(add), arguments);
    CHECK(cudaGraphAddChildGraphNode(&before, graph, nullptr, 0, child));
  } else if (mode == "host") {
    cudaHostNodeParams parameters{nothing, nullptr};
    CHECK(cudaGraphAddHostNode(&before, graph, nullptr, 0, &parameters));
    before = add_kernel(graph, reinterpret_cast<void*>(add), arguments, 1, before);
  } else if (mode == "conditional") {
    cudaGraphConditionalHandle handle;
    CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
    cudaGraphNodeParams parameters{};
    parameters.type = cudaGraphNodeTypeConditional;
    parameters.conditional.handle = handle;
    parameters.conditional.type = cudaGraphCondTypeIf;
    parameters.conditional.size = 1;
    CHECK(cudaGraphAddNode(&before, graph, nullptr, nullptr, 0, &parameters));
    add_kernel(parameters.conditional.phGraph_out[0], reinterpret_cast<void*>(add), arguments);
  } else if (mode == "memory") {
    // The kernel works in memory that there is while the graph runs only.
    int* own = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMallocAsync(&own, 4096, stream));
    CHECK(cudaMemcpyAsync(own, data, sizeof(int), cudaMemcpyDefault, stream));
    add<<<1, 1, 0, stream>>>(own, 1);
    target<<<1, 1, 0, stream>>>(own);
    CHECK(cudaMemcpyAsync(data, own, sizeof(int), cudaMemcpyDefault, stream));
    CHECK(cudaFreeAsync(own, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
  } else if (mode == "memory_behind") {
    int* own = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<1, 1, 0, stream>>>(data, 1);
    target<<<1, 1, 0, stream>>>(data);
    CHECK(cudaMallocAsync(&own, 4096, stream));
    add<<<1, 1, 0, stream>>>(own, 1);
    CHECK(cudaFreeAsync(own, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
  } else if (mode == "large") {
    // More than a third of the device: two copies have no room.
    std::size_t free = 0;
    std::size_t total = 0;
    void* much = nullptr;
    CHECK(cudaMemGetInfo(&free, &total));
    CHECK(cudaMalloc(&much, free / 5 * 2));
    before = add_kernel(graph, reinterpret_cast<void*>(add), arguments);
  }
  if (!mode.starts_with("memory")) add_kernel(graph, reinterpret_cast<void*>(target), arguments, 1, before);
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDefault));
  EXPECT(value == expected);
  std::printf("ok\n");
  return 0;
}
