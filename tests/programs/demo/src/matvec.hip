#include <hip/hip_runtime.h>

#include "matvec.hpp"

namespace demo {

// Written the slow way on purpose: the running sum goes through memory in every step.
__global__ void add_rows(const float* matrix, const float* vector, float* result, Shape shape) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= shape.rows) return;
  for (int column = 0; column < shape.columns; ++column)
    result[row] += matrix[row * shape.columns + column] * vector[column];
}

__global__ void fill(float* data, float start, float step, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] = start + step * static_cast<float>(i % 97);
}

}  // namespace demo

void fill(float* data, float start, float step, int count) {
  demo::fill<<<(count + 255) / 256, 256>>>(data, start, step, count);
}

void add_matrix_vector(const float* matrix, const float* vector, float* result, Shape shape) {
  demo::add_rows<<<(shape.rows + 63) / 64, 64>>>(matrix, vector, result, shape);
}
