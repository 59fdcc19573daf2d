// A kernel whose code is for another GPU, through each of HIP's ways to launch or ask for one. Built twice: with
// REFUSED for another GPU, the kernel alone; without, for this one.
#include <hip/hip_runtime.h>

#ifdef REFUSED
__global__ void refused(int* out) { *out = 1; }
#else
#include <cstdio>
#include <functional>
#include <map>
#include <string>

__global__ void refused(int* out);
__global__ void good(int* out) { *out = 2; }

namespace {

int* g_out = nullptr;
void* g_arguments[] = {&g_out};

hipKernelNodeParams node_of(const void* kernel) {
  hipKernelNodeParams node{};
  node.blockDim = node.gridDim = dim3(1);
  node.func = const_cast<void*>(kernel);
  node.kernelParams = g_arguments;
  return node;
}

hipGraphNodeParams any_node_of(const void* kernel) {
  hipGraphNodeParams node{};
  node.type = hipGraphNodeTypeKernel;
  node.kernel = node_of(kernel);
  return node;
}

struct Graph {
  Graph() {
    const hipKernelNodeParams fine = node_of(reinterpret_cast<const void*>(&good));
    if (hipGraphCreate(&graph, 0) != hipSuccess || hipGraphAddKernelNode(&node, graph, nullptr, 0, &fine) != hipSuccess ||
        hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0) != hipSuccess) {
      std::puts("no graph");
    }
  }
  hipGraph_t graph;
  hipGraphNode_t node;
  hipGraphExec_t executable;
};

using Door = std::function<hipError_t(const void*)>;

const std::map<std::string, Door> k_doors = {
    {"hipLaunchKernel", [](const void* kernel) { return hipLaunchKernel(kernel, dim3(1), dim3(1), g_arguments, 0, nullptr); }},
    {"hipExtLaunchKernel", [](const void* kernel) {
       return hipExtLaunchKernel(kernel, dim3(1), dim3(1), g_arguments, 0, nullptr, nullptr, nullptr, 0);
     }},
    {"hipLaunchCooperativeKernel", [](const void* kernel) {
       return hipLaunchCooperativeKernel(kernel, dim3(1), dim3(1), g_arguments, 0, nullptr);
     }},
    {"hipExtLaunchMultiKernelMultiDevice", [](const void* kernel) {
       hipStream_t stream = nullptr;
       (void)hipStreamCreate(&stream);
       hipLaunchParams launch{const_cast<void*>(kernel), dim3(1), dim3(1), g_arguments, 0, stream};
       return hipExtLaunchMultiKernelMultiDevice(&launch, 1, 0);
     }},
    {"hipLaunchCooperativeKernelMultiDevice", [](const void* kernel) {
       hipStream_t stream = nullptr;
       (void)hipStreamCreate(&stream);
       hipLaunchParams launch{const_cast<void*>(kernel), dim3(1), dim3(1), g_arguments, 0, stream};
       return hipLaunchCooperativeKernelMultiDevice(&launch, 1, 0);
     }},
    {"hipGraphAddKernelNode", [](const void* kernel) {
       Graph graph;
       const hipKernelNodeParams node = node_of(kernel);
       return hipGraphAddKernelNode(&graph.node, graph.graph, nullptr, 0, &node);
     }},
    {"hipGraphAddNode", [](const void* kernel) {
       Graph graph;
       hipGraphNodeParams node = any_node_of(kernel);
       return hipGraphAddNode(&graph.node, graph.graph, nullptr, 0, &node);
     }},
    {"hipGraphKernelNodeSetParams", [](const void* kernel) {
       Graph graph;
       const hipKernelNodeParams node = node_of(kernel);
       return hipGraphKernelNodeSetParams(graph.node, &node);
     }},
    {"hipGraphExecKernelNodeSetParams", [](const void* kernel) {
       Graph graph;
       const hipKernelNodeParams node = node_of(kernel);
       return hipGraphExecKernelNodeSetParams(graph.executable, graph.node, &node);
     }},
    {"hipGraphNodeSetParams", [](const void* kernel) {
       Graph graph;
       hipGraphNodeParams node = any_node_of(kernel);
       return hipGraphNodeSetParams(graph.node, &node);
     }},
    {"hipGraphExecNodeSetParams", [](const void* kernel) {
       Graph graph;
       hipGraphNodeParams node = any_node_of(kernel);
       return hipGraphExecNodeSetParams(graph.executable, graph.node, &node);
     }},
    {"hipFuncGetAttributes", [](const void* kernel) {
       hipFuncAttributes attributes;
       return hipFuncGetAttributes(&attributes, kernel);
     }},
    {"hipFuncSetAttribute", [](const void* kernel) {
       return hipFuncSetAttribute(kernel, hipFuncAttributeMaxDynamicSharedMemorySize, 1024);
     }},
    {"hipGetFuncBySymbol", [](const void* kernel) {
       hipFunction_t function;
       return hipGetFuncBySymbol(&function, kernel);
     }},
    {"hipOccupancyMaxActiveBlocksPerMultiprocessor", [](const void* kernel) {
       int blocks = 0;
       return hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 64, 0);
     }},
    {"hipOccupancyMaxPotentialBlockSize", [](const void* kernel) {
       int grid = 0, block = 0;
       return hipOccupancyMaxPotentialBlockSize(&grid, &block, kernel, 0, 0);
     }},
};

}  // namespace

// Each door with what it returned for the kernel that was refused, and for one that was not. The last line before a crash names the
// door before the one that it was in.
int main() {
  if (hipMalloc(&g_out, sizeof *g_out) != hipSuccess) return 1;
  for (const auto& [name, door] : k_doors) {
    const hipError_t refusal = door(reinterpret_cast<const void*>(&refused));
    (void)hipGetLastError();
    const hipError_t success = door(reinterpret_cast<const void*>(&good));
    std::printf("%s %s %s\n", name.c_str(), hipGetErrorName(refusal), hipGetErrorName(success));
    std::fflush(stdout);
  }
  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}
#endif
