// A green context of the first GPU, with a part of its multiprocessors.
#pragma once

#include "driver_calls.cuh"

inline CUgreenCtx make_green() {
  CUdevResource all{};
  CUdevResource part{};
  CUdevResource rest{};
  unsigned groups = 1;
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  DRIVER(cuDeviceGetDevResource, CUdevice{0}, &all, CU_DEV_RESOURCE_TYPE_SM);
  DRIVER(cuDevSmResourceSplitByCount, &part, &groups, static_cast<const CUdevResource*>(&all), &rest, 0u, 16u);
  DRIVER(cuDevResourceGenerateDesc, &description, &part, 1u);
  DRIVER(cuGreenCtxCreate, &green, description, CUdevice{0}, static_cast<unsigned>(CU_GREEN_CTX_DEFAULT_STREAM));
  return green;
}

inline CUstream stream_of(CUgreenCtx green) {
  CUstream stream = nullptr;
  DRIVER(cuGreenCtxStreamCreate, &stream, green, static_cast<unsigned>(CU_STREAM_NON_BLOCKING), 0);
  return stream;
}
