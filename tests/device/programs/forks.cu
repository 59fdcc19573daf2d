// A program that forks before it uses the GPU: two children run the kernel, each in a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include "check.cuh"

__global__ void mark(int* out, int value) { out[threadIdx.x] = value + static_cast<int>(threadIdx.x); }

int main() {
  for (int child = 0; child < 2; ++child) {
    if (fork() != 0) continue;
    int* out = nullptr;
    CHECK(cudaMalloc(&out, 128 * sizeof(int)));
    CHECK(cudaMemset(out, 0, 128 * sizeof(int)));
    mark<<<1, 128>>>(out, 1000 * (child + 1));
    int last = 0;
    CHECK(cudaMemcpy(&last, out + 127, sizeof last, cudaMemcpyDeviceToHost));
    EXPECT(last == 1000 * (child + 1) + 127);
    return 0;
  }
  int failed = 0;
  for (int child = 0; child < 2; ++child) {
    int status = 0;
    wait(&status);
    failed |= status;
  }
  EXPECT(failed == 0);
  std::printf("ok\n");
  return 0;
}
