// A grid of more work-items than 32 bits can count.
#include "check.cuh"

__global__ void count_blocks(unsigned* blocks) {
  if (threadIdx.x == 0 && blockIdx.x % 4096 == 0) atomicAdd(blocks, 1u);
}

int main() {
  constexpr unsigned k_blocks = (1u << 22) + 4096;   // of 1,024 work-items each
  unsigned* blocks = nullptr;
  CHECK(cudaMalloc(&blocks, sizeof *blocks));
  CHECK(cudaMemset(blocks, 0, sizeof *blocks));
  count_blocks<<<k_blocks, 1024>>>(blocks);
  CHECK(cudaDeviceSynchronize());
  unsigned result = 0;
  CHECK(cudaMemcpy(&result, blocks, sizeof result, cudaMemcpyDeviceToHost));
  EXPECT(result == k_blocks / 4096);
  std::printf("ok\n");
  return 0;
}
