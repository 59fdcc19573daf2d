// Calls of the driver's own interface, from a program that is linked against the runtime alone.
#pragma once

#include <cuda.h>

#include "check.cuh"

template <typename Function, typename... Arguments>
void driver_call(const char* name, Function, Arguments... arguments) {
  void* found = nullptr;
  CHECK(cudaGetDriverEntryPointByVersion(name, &found, 13000, cudaEnableDefault));
  const CUresult status = reinterpret_cast<Function>(found)(arguments...);
  if (status == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: error %d\n", name, static_cast<int>(status));
  std::exit(1);
}
#define DRIVER(name, ...) driver_call(#name, static_cast<decltype(&name)>(nullptr), __VA_ARGS__)
