// One kernel with three sizes of input. It includes nothing of ours, so that no compile command is needed.
#include <hip/hip_runtime.h>

#include <vector>

// Its symbol tells no types.
extern "C" __global__ void halve(const float* in, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = in[i] * 0.5f;
}

int main() {
  constexpr int most = 5000;
  std::vector<float> values(most);
  for (int i = 0; i < most; ++i) values[i] = static_cast<float>(i);
  float *in = nullptr, *out = nullptr;
  const size_t bytes = most * sizeof(float);
  if (hipMalloc(&in, bytes) != hipSuccess || hipMalloc(&out, bytes) != hipSuccess) return 1;
  if (hipMemcpy(in, values.data(), bytes, hipMemcpyHostToDevice) != hipSuccess) return 1;
  for (const int count : {100, 1000, most}) halve<<<(count + 255) / 256, 256>>>(in, out, count);
  if (hipMemcpy(values.data(), out, bytes, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  return values[most - 1] == (most - 1) * 0.5f ? 0 : 1;
}
