// A program as somebody tries the stages on first: one file, no build system, nothing of the tests' own.
#include <hip/hip_runtime.h>

__global__ void scale(float* data, float factor) { data[threadIdx.x] *= factor; }

int main() {
  float* data = nullptr;
  if (hipMalloc(&data, 64 * sizeof(float)) != hipSuccess) return 1;
  if (hipMemset(data, 0, 64 * sizeof(float)) != hipSuccess) return 1;
  scale<<<1, 64>>>(data, 2.0f);
  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}
