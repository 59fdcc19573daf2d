// A kernel on the second GPU with memory of its own; two on the first that read the second's memory, which an argument of
// one names, and a pointer in memory of the other's.
#include "check.cuh"

__global__ void on_second(int* data) { data[threadIdx.x] += static_cast<int>(threadIdx.x); }
__global__ void across(int* here, const int* there) { here[threadIdx.x] += there[threadIdx.x]; }
__global__ void behind(int* here, const int* const* table) { here[threadIdx.x] += table[0][threadIdx.x]; }

int main() {
  int* first = nullptr;
  int* second = nullptr;
  CHECK(cudaSetDevice(1));
  CHECK(cudaMalloc(&second, 128 * sizeof(int)));
  CHECK(cudaMemset(second, 0, 128 * sizeof(int)));
  for (int i = 0; i < 3; ++i) on_second<<<1, 128>>>(second);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaSetDevice(0));
  CHECK(cudaMalloc(&first, 128 * sizeof(int)));
  CHECK(cudaMemset(first, 0, 128 * sizeof(int)));
  int can = 0;
  CHECK(cudaDeviceCanAccessPeer(&can, 0, 1));
  if (can != 0) {
    CHECK(cudaDeviceEnablePeerAccess(1, 0));
    across<<<1, 128>>>(first, second);
    int** table = nullptr;
    CHECK(cudaMalloc(&table, sizeof(int*)));
    CHECK(cudaMemcpy(table, &second, sizeof(int*), cudaMemcpyHostToDevice));
    behind<<<1, 128>>>(first, table);
    CHECK(cudaDeviceSynchronize());
  }
  int last = 0;
  CHECK(cudaMemcpy(&last, second + 127, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 3 * 127);
  std::printf(can != 0 ? "ok peers\n" : "ok\n");
  return 0;
}
