// Prints a line, then launches the kernel for ever, until it is killed.
#include <unistd.h>

#include "check.cuh"

__global__ void tick(unsigned* counter) { atomicAdd(counter, 1u); }

int main() {
  unsigned* counter = nullptr;
  CHECK(cudaMalloc(&counter, 1 << 28));
  CHECK(cudaMemset(counter, 0, 1 << 28));
  std::fprintf(stderr, "spinning\n");
  for (;;) {
    tick<<<1, 1>>>(counter);
    CHECK(cudaDeviceSynchronize());
  }
}
