// Kernels that run for as long as they are told, by the device's own clock. Argument: `reset`: the program gives its context up
// itself, as NVIDIA's samples do; `unwaited`: and does not wait for them.
#include <cstring>

#include "check.cuh"
#include "spin.cuh"

__global__ void takes_200_us(int* runs) { spin(200'000), *runs += 1; }
__global__ void takes_1000_us(int* runs) { spin(1'000'000), *runs += 1; }

int main(int argc, char** argv) {
  const bool waits = argc < 2 || std::strcmp(argv[1], "unwaited") != 0;
  int* runs = nullptr;
  CHECK(cudaMalloc(&runs, sizeof *runs));
  CHECK(cudaMemset(runs, 0, sizeof *runs));
  for (int i = 0; i < 20; ++i) takes_200_us<<<1, 1>>>(runs);
  for (int i = 0; i < 10; ++i) takes_1000_us<<<1, 1>>>(runs);
  int count = 30;
  if (waits) CHECK(cudaMemcpy(&count, runs, sizeof count, cudaMemcpyDeviceToHost));
  EXPECT(count == 30);
  if (argc > 1) CHECK(cudaDeviceReset());
  std::printf("ok\n");
  return 0;
}
