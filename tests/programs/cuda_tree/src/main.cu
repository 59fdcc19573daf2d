// Kernels of every linkage, one of them a template that only its launch instantiates, in a header of its own.
#include "kernels/scale.cuh"

namespace {
__global__ void hidden(float* data) { data[threadIdx.x] += 3; }
}  // namespace

__global__ void plain(float* data) { data[threadIdx.x] += step(1.0f, 2.0f); }

void run(float* data, double* more, Shape shape) {
  rows::scale<float><<<1, 32>>>(data, 2.0f, shape);
  rows::scale<double><<<1, 32>>>(more, 2.0, shape);
  hidden<<<1, 32>>>(data);
  plain<<<1, 32>>>(data);
}
