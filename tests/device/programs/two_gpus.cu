// A kernel on the second GPU with memory of its own, and one on each by turns, which adds what its GPU's variable says; two on the first that read the second's memory, which an argument of
// one names, and a pointer in memory of the other's.
#include "check.cuh"

__global__ void on_second(int* data) { data[threadIdx.x] += static_cast<int>(threadIdx.x); }
__device__ int g_added = 5;
__global__ void on_each(int* data) {
  data[threadIdx.x] = 3 * data[threadIdx.x] + g_added;
  __syncthreads();
  if (threadIdx.x == 0) g_added += 1;
}
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
  int* each[2];
  int expected[] = {0, 1};
  int added[] = {5, 5};
  for (int gpu : {0, 1}) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaMalloc(&each[gpu], 128 * sizeof(int)));
    CHECK(cudaMemset(each[gpu], 0, 128 * sizeof(int)));
    CHECK(cudaMemcpy(each[gpu] + 127, &expected[gpu], sizeof(int), cudaMemcpyHostToDevice));
  }
  for (int gpu : {0, 1, 0, 1, 0, 1}) {
    CHECK(cudaSetDevice(gpu));
    on_each<<<1, 128>>>(each[gpu]);
    CHECK(cudaDeviceSynchronize());
    expected[gpu] = 3 * expected[gpu] + added[gpu]++;
    int now = 0;
    CHECK(cudaMemcpy(&now, each[gpu] + 127, sizeof now, cudaMemcpyDeviceToHost));
    EXPECT(now == expected[gpu]);
  }
  for (int* memory : each) CHECK(cudaFree(memory));
  CHECK(cudaSetDevice(0));
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
