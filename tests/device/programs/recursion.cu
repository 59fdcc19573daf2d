// A recursion that needs a larger stack than a context has by default.
#include "check.cuh"

__device__ __noinline__ int descend(volatile int* trail, int depth) {
  volatile int here[64];
  here[depth % 64] = depth;
  if (depth == 0) return 0;
  const int below = descend(here, depth - 1);
  return below + here[depth % 64] + (trail == nullptr ? 1 : 0);
}

__global__ void deep(int* out, int depth) { out[threadIdx.x] = descend(nullptr, depth); }

int main() {
  constexpr int k_depth = 200;   // some 60 KiB
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 128 << 10));
  int* out = nullptr;
  CHECK(cudaMalloc(&out, 64 * sizeof(int)));
  CHECK(cudaMemset(out, 0, 64 * sizeof(int)));
  deep<<<1, 64>>>(out, k_depth);
  CHECK(cudaDeviceSynchronize());
  int last = 0;
  CHECK(cudaMemcpy(&last, out + 63, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == k_depth * (k_depth + 1) / 2 + 1);
  std::printf("ok\n");
  return 0;
}
