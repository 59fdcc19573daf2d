// A kernel is given the address of a variable of another module, none of whose own kernels ever runs.
#include <cstdint>
#include <string>

#include "check.cuh"

__device__ int own[4] = {1, 2, 3, 4};

__global__ void add_table(const int* table, int* out, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] += table[i] + own[i % 4];
}

static std::string module_with_table() {
  return ".version 7.0\n.target sm_70\n.address_size 64\n"
         ".visible .global .align 4 .b32 table[8] = {100, 200, 300, 400, 500, 600, 700, 800};\n"
         ".visible .global .align 4 .b32 beside[2] = {7, 8};\n"
         ".visible .entry never() {\n  ret;\n}\n";
}

int main() {
  constexpr int k_count = 8;
  cudaLibrary_t library;
  CHECK(cudaLibraryLoadData(&library, module_with_table().c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  void* table = nullptr;
  std::size_t bytes = 0;
  CHECK(cudaLibraryGetGlobal(&table, &bytes, library, "table"));
  EXPECT(bytes == k_count * sizeof(int));
  int* out = nullptr;
  CHECK(cudaMalloc(&out, bytes));
  CHECK(cudaMemset(out, 0, bytes));
  for (int i = 0; i < 3; ++i) add_table<<<1, 32>>>(static_cast<const int*>(table), out, k_count);
  int result[k_count];
  CHECK(cudaMemcpy(result, out, sizeof result, cudaMemcpyDeviceToHost));
  for (int i = 0; i < k_count; ++i) EXPECT(result[i] == 3 * (100 * (i + 1) + i % 4 + 1));
  std::printf("%p\nok\n", table);
  return 0;
}
