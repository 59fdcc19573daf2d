// A kernel that allocates from the device's own heap, which no host call can see: a capture has to refuse it. What follows a
// pointer there is captured with a warning.
#include "check.cuh"

__global__ void allocate(int* out) {
  int* own = static_cast<int*>(malloc(64));
  if (own != nullptr) own[0] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = own == nullptr ? -1 : own[0];
  free(own);
}

__device__ int* kept;
__global__ void keep() { kept = static_cast<int*>(malloc(64)); *kept = 3; }
__global__ void follow(int* out) { out[threadIdx.x] += *kept; }

int main() {
  int* out = nullptr;
  CHECK(cudaMalloc(&out, 32 * sizeof(int)));
  allocate<<<1, 32>>>(out);
  keep<<<1, 1>>>();
  follow<<<1, 32>>>(out);
  CHECK(cudaDeviceSynchronize());
  std::printf("ok\n");
  return 0;
}
