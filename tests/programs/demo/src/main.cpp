// A program as users have them: fills a matrix and a vector, multiplies them a few times, checks the result.
// An argument says how many times.
#include <hip/hip_runtime_api.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "matvec.hpp"

void fill(float* data, float start, float step, int count);

namespace {

void check(hipError_t status, const char* what) {
  if (status == hipSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, hipGetErrorString(status));
  std::exit(2);
}

float* allocate(int count) {
  float* data = nullptr;
  check(hipMalloc(reinterpret_cast<void**>(&data), sizeof(float) * static_cast<std::size_t>(count)), "hipMalloc");
  return data;
}

float pattern(float start, float step, int i) { return start + step * static_cast<float>(i % 97); }

}  // namespace

int main(int argc, char** argv) {
  const Shape shape{256, 192};
  const int steps = argc > 1 ? std::atoi(argv[1]) : 3;
  float* matrix = allocate(shape.rows * shape.columns);
  float* vector = allocate(shape.columns);
  float* result = allocate(shape.rows);
  fill(matrix, -0.5f, 0.01f, shape.rows * shape.columns);
  fill(vector, 1.0f, 0.125f, shape.columns);
  check(hipMemset(result, 0, sizeof(float) * static_cast<std::size_t>(shape.rows)), "hipMemset");
  for (int step = 0; step < steps; ++step) {
    add_matrix_vector(matrix, vector, result, shape);
    check(hipDeviceSynchronize(), "hipDeviceSynchronize");
  }

  std::vector<float> host(static_cast<std::size_t>(shape.rows));
  check(hipMemcpy(host.data(), result, sizeof(float) * host.size(), hipMemcpyDeviceToHost), "hipMemcpy");
  double worst = 0.0;
  for (int row = 0; row < shape.rows; ++row) {
    double sum = 0.0;
    for (int column = 0; column < shape.columns; ++column)
      sum += static_cast<double>(pattern(-0.5f, 0.01f, row * shape.columns + column)) * pattern(1.0f, 0.125f, column);
    worst = std::fmax(worst, std::fabs(steps * sum - host[static_cast<std::size_t>(row)]));
  }
  std::printf("%d x %d, %d steps: largest error %.3g\n", shape.rows, shape.columns, steps, worst);
  return worst < 3e-2 * steps ? 0 : 1;
}
