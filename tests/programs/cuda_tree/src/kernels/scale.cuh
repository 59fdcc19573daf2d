#pragma once
#include <shape.cuh>

#include "../step.cuh"
#ifdef __CUDA_ARCH__
#include <device_only.cuh>
#endif

namespace rows {

template <typename T>
__global__ void scale(T* data, T factor, Shape shape) {
#ifdef __CUDA_ARCH__
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < shape.rows * shape.columns) data[i] = step(data[i], factor * SCALE_UNIT / WIDTH);
#endif
}

}  // namespace rows
