// One kernel, launched twice in one shape with other scalar arguments.
#include <hip/hip_runtime.h>

#include <cstdio>

__global__ void scale(int* data, int factor, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] = (data[i] + 1) * factor;
}

int main() {
  constexpr int k_count = 60;
  int* data = nullptr;
  bool is_right = hipMalloc(&data, k_count * sizeof(int)) == hipSuccess &&
                  hipMemset(data, 0, k_count * sizeof(int)) == hipSuccess;
  scale<<<1, 64>>>(data, 3, k_count);
  scale<<<1, 64>>>(data, 5, k_count);
  int result[k_count] = {};
  is_right = is_right && hipMemcpy(result, data, sizeof result, hipMemcpyDeviceToHost) == hipSuccess;
  for (const int each : result) is_right = is_right && each == 20;
  if (!is_right) std::puts("wrong");
  return is_right ? 0 : 1;
}
