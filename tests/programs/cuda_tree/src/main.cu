// Kernels of every linkage, one of them a template that only its launch instantiates, in a header of its own.
#include <cstdio>
#include <vector>

#include "kernels/scale.cuh"

namespace {
__global__ void hidden(float* data, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] += 3;
}
}  // namespace

__global__ void plain(float* data, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] += step(1.0f, 2.0f);
}

int main() {
  const Shape shape{256, 32};
  const int count = shape.rows * shape.columns;
  std::vector<float> host(count);
  for (int i = 0; i < count; ++i) host[i] = static_cast<float>(i);
  float* data = nullptr;
  double* more = nullptr;
  cudaMalloc(&data, count * sizeof(float));
  cudaMalloc(&more, count * sizeof(double));
  cudaMemset(more, 0, count * sizeof(double));
  cudaMemcpy(data, host.data(), count * sizeof(float), cudaMemcpyHostToDevice);
  for (int i = 0; i < 3; ++i) {
    rows::scale<float><<<count / 256, 256>>>(data, 3.0f, shape);
    rows::scale<double><<<count / 256, 256>>>(more, 2.0, shape);
    hidden<<<count / 256, 256>>>(data, count);
    plain<<<count / 256, 256>>>(data, count);
  }
  cudaMemcpy(host.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost);
  const bool right = cudaGetLastError() == cudaSuccess && host[1] == ((1.5f + 5) * 1.5f + 5) * 1.5f + 5;
  std::puts(right ? "ok" : "wrong");
  return right ? 0 : 1;
}
