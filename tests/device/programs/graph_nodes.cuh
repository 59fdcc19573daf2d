// Nodes of graphs that are made by hand.
#pragma once

#include "check.cuh"

// A kernel in one block; it waits for `after` only, if that is given.
inline cudaGraphNode_t add_kernel(cudaGraph_t graph, void* kernel, void** arguments, int threads = 1,
                                  cudaGraphNode_t after = nullptr) {
  cudaKernelNodeParams parameters{};
  parameters.func = kernel;
  parameters.gridDim = dim3(1);
  parameters.blockDim = dim3(threads);
  parameters.kernelParams = arguments;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddKernelNode(&node, graph, after == nullptr ? nullptr : &after, after == nullptr ? 0 : 1, &parameters));
  return node;
}
