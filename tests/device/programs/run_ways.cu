// One kernel, launched on streams by three calls, out of a recorded graph and one that has this as a child, out of the body of a
// conditional node, and in larger blocks with more shared memory than a kernel may have unasked; likewise in a child process.
// Prints what the first element of each buffer has become. With an argument, reads a line and ends with that exit code.
#include <cstdlib>
#include <cstring>
#include <string>

#include "check.cuh"

#ifndef BOUNDS
#define BOUNDS
#endif
#ifndef EXTRA
#define EXTRA 0
#endif

// Adds `what` to each element, by way of the last of `words` words of shared memory.
__global__ void BOUNDS add(int* data, int what, int words) {
  extern __shared__ int own[];
  for (int i = threadIdx.x; i < words; i += blockDim.x) own[i] = what;
  __syncthreads();
  data[blockIdx.x * blockDim.x + threadIdx.x] += own[words - 1] + EXTRA;
#ifdef REBUILT
  if (what > 1000) data[0] = 0;
#endif
}

constexpr int k_words = 15'000;

static int* buffer() {
  int* made = nullptr;
  CHECK(cudaMalloc(&made, 4096));
  CHECK(cudaMemset(made, 0, 4096));
  return made;
}

static void print(const char* name, const int* data) {
  int first = 0;
  CHECK(cudaMemcpy(&first, data, sizeof first, cudaMemcpyDeviceToHost));
  std::printf("%s %d\n", name, first);
}

int main(int argc, char** argv) {
  const bool is_child = argc > 1 && std::strcmp(argv[1], "child") == 0;
  if (!is_child) {
    const std::string command = std::string("'") + argv[0] + "' child > /dev/null";
    EXPECT(std::system(command.c_str()) == 0);
  }
  int* on_streams = buffer();
  int* in_graph = buffer();
  int* in_body = buffer();
  int* large = buffer();
  CHECK(cudaDeviceSynchronize());
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  add<<<2, 64, 4>>>(on_streams, 5, 1);
  CHECK(cudaDeviceSynchronize());
  cudaLaunchConfig_t configuration{};
  configuration.gridDim = 2;
  configuration.blockDim = 64;
  configuration.dynamicSmemBytes = 4;
  configuration.stream = stream;
  CHECK(cudaLaunchKernelEx(&configuration, add, on_streams, 5, 1));
  int what = 5;
  int words = 1;
  void* arguments[] = {&on_streams, &what, &words};
  CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(add), dim3(2), dim3(64), arguments, 4, stream));

  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  add<<<2, 64, 4, stream>>>(in_graph, 5, 1);
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(executable, stream));
  cudaGraph_t parent;
  cudaGraphNode_t child;
  cudaGraphExec_t executable_parent;
  CHECK(cudaGraphCreate(&parent, 0));
  CHECK(cudaGraphAddChildGraphNode(&child, parent, nullptr, 0, graph));
  CHECK(cudaGraphInstantiate(&executable_parent, parent, 0));
  CHECK(cudaGraphLaunch(executable_parent, stream));

  cudaGraph_t deciding;
  CHECK(cudaGraphCreate(&deciding, 0));
  cudaGraphNodeParams condition{};
  condition.type = cudaGraphNodeTypeConditional;
  condition.conditional.type = cudaGraphCondTypeIf;
  condition.conditional.size = 1;
  CHECK(cudaGraphConditionalHandleCreate(&condition.conditional.handle, deciding, 1, cudaGraphCondAssignDefault));
  cudaGraphNode_t decision;
  CHECK(cudaGraphAddNode(&decision, deciding, nullptr, nullptr, 0, &condition));
  void* of_body[] = {&in_body, &what, &words};
  cudaKernelNodeParams body{};
  body.func = reinterpret_cast<void*>(add);
  body.gridDim = 2;
  body.blockDim = 64;
  body.sharedMemBytes = 4;
  body.kernelParams = of_body;
  cudaGraphNode_t added;
  CHECK(cudaGraphAddKernelNode(&added, condition.conditional.phGraph_out[0], nullptr, 0, &body));
  cudaGraphExec_t executable_decision;
  CHECK(cudaGraphInstantiate(&executable_decision, deciding, 0));
  CHECK(cudaGraphLaunch(executable_decision, stream));

  // What the program reads of its graph is what it put there.
  cudaGraphNode_t node;
  std::size_t count = 1;
  cudaKernelNodeParams node_parameters{};
  CHECK(cudaGraphGetNodes(graph, &node, &count));
  CHECK(cudaGraphKernelNodeGetParams(node, &node_parameters));
  EXPECT(node_parameters.func == reinterpret_cast<void*>(add) && node_parameters.blockDim.x == 64);

  CHECK(cudaFuncSetAttribute(add, cudaFuncAttributeMaxDynamicSharedMemorySize, k_words * sizeof(int)));
  add<<<2, 256, k_words * sizeof(int), stream>>>(large, 5, k_words);
  CHECK(cudaGetLastError());
  CHECK(cudaStreamSynchronize(stream));
  print("streams", on_streams);
  print("graph", in_graph);
  print("body", in_body);
  print("large", large);
  if (argc < 2 || is_child) return 0;
  char line[80] = {};
  if (std::fgets(line, sizeof line, stdin) != nullptr) std::printf("read %s", line);
  return std::atoi(argv[1]);
}
