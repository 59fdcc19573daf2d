// A kernel that allocates from the device's own heap, which no host call can see: a capture has to refuse it.
#include "check.cuh"

__global__ void allocate(int* out) {
  int* own = static_cast<int*>(malloc(64));
  if (own != nullptr) own[0] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = own == nullptr ? -1 : own[0];
  free(own);
}

int main() {
  int* out = nullptr;
  CHECK(cudaMalloc(&out, 32 * sizeof(int)));
  allocate<<<1, 32>>>(out);
  CHECK(cudaDeviceSynchronize());
  std::printf("ok\n");
  return 0;
}
