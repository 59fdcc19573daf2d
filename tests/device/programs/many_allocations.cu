// Ten thousand small allocations, none of which an argument names, that are given back and made again between launches.
#include <vector>

#include "check.cuh"

__global__ void walk_all(int** pieces, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count && pieces[i] != nullptr) atomicAdd(pieces[i], i);
}

int main() {
  constexpr int k_count = 10'000;
  std::vector<int*> pieces(k_count);
  int** table = nullptr;
  CHECK(cudaMalloc(&table, k_count * sizeof(int*)));
  void* nothing = &table;
  CHECK(cudaMalloc(&nothing, 0));
  for (int run = 0; run < 4; ++run) {
    for (int i = 0; i < k_count; ++i) {
      // Every other one goes, and comes again with another size.
      if (run > 0 && i % 2 == 0) CHECK(cudaFree(pieces[i]));
      if (run == 0 || i % 2 == 0) {
        CHECK(cudaMalloc(&pieces[i], 4 + (i * 37 + run * 1000) % 3000));
        CHECK(cudaMemset(pieces[i], 0, 4));
      }
    }
    CHECK(cudaMemcpy(table, pieces.data(), k_count * sizeof(int*), cudaMemcpyHostToDevice));
    walk_all<<<(k_count + 255) / 256, 256>>>(table, k_count);
    CHECK(cudaDeviceSynchronize());
  }
  int odd = 0;
  int even = 0;
  CHECK(cudaMemcpy(&odd, pieces[4321], sizeof odd, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&even, pieces[1234], sizeof even, cudaMemcpyDeviceToHost));
  EXPECT(odd == 4 * 4321 && even == 1234);
  std::printf("ok\n");
  return 0;
}
