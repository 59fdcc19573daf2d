// Calls through pointers to device functions, chosen per lane.
#include "hip_check.hpp"

using Operation = int (*)(int, int);

__host__ __device__ __attribute__((noinline)) int plus(int a, int b) { return a + b; }
__host__ __device__ __attribute__((noinline)) int minus(int a, int b) { return a - b; }
__host__ __device__ __attribute__((noinline)) int times(int a, int b) { return a * b; }
__host__ __device__ __attribute__((noinline)) int many(int a, int b) {
  int sum = 0;
  for (int i = 0; i < (b & 7); ++i) sum += times(a, i) - plus(i, b);  // calls of its own
  return sum;
}

__device__ Operation operations[4] = {plus, minus, times, many};

__global__ void call(const int* which, const int* a, const int* b, int* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = operations[which[i]](a[i], b[i]);
}

int main() {
  constexpr int k_count = 777;
  const Operation on_host[4] = {plus, minus, times, many};
  std::vector<int> which(k_count), a(k_count), b(k_count), wanted(k_count);
  Random source;
  for (int i = 0; i < k_count; ++i) {
    which[i] = source.whole(0, 4);
    a[i] = source.whole(-1000, 1000);
    b[i] = source.whole(-1000, 1000);
    wanted[i] = on_host[which[i]](a[i], b[i]);
  }
  const DeviceArray<int> device_which(which), device_a(a), device_b(b), out(k_count);
  call<<<(k_count + 127) / 128, 128>>>(device_which.get(), device_a.get(), device_b.get(), out.get(), k_count);
  HIP_DONE();
  Tally tally("function_pointers");
  tally.equal("out", out.read(), wanted);
  return tally.finish();
}
