// A kernel with as many bytes of parameters as CUDA allows.
#include "check.cuh"

struct Table {
  int values[8188];
};

__global__ void look_up_all(int* out, Table table) { out[threadIdx.x] += table.values[8187 - threadIdx.x]; }

int main() {
  static Table table;
  for (int i = 0; i < 8188; ++i) table.values[i] = i;
  int* out = nullptr;
  CHECK(cudaMalloc(&out, 128 * sizeof(int)));
  CHECK(cudaMemset(out, 0, 128 * sizeof(int)));
  for (int run = 0; run < 2; ++run) look_up_all<<<1, 128>>>(out, table);
  CHECK(cudaDeviceSynchronize());
  int last = 0;
  CHECK(cudaMemcpy(&last, out + 127, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 2 * 8060);
  std::printf("ok\n");
  return 0;
}
