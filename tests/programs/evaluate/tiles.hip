// Sums of rows, a block for each TILE rows: how many instructions it takes depends on TILE, UNROLL and WRONG.
#include <hip/hip_runtime.h>

#include <vector>

#ifndef TILE
#define TILE 16
#endif
#ifndef UNROLL
#define UNROLL 1
#endif
#if UNROLL > 4
#error no more than four
#endif

__global__ void tiles(const int* values, int* results, int rows, int columns) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows) return;
  int sum = 0;
#pragma unroll UNROLL
  for (int i = 0; i < columns / (TILE == 64 ? 2 : 1); ++i) sum += values[row * columns + i];
  results[row] = sum;
#if TILE == 32
  if (columns < 0) results[row] = 1;
#else
  for (int i = 0; i < TILE; ++i) __builtin_amdgcn_s_sleep(0);
#endif
}

int main() {
  constexpr int rows = 128, columns = 24;
  std::vector<int> host(rows * columns);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<int>(i % 13) - 4;
  int *values = nullptr, *results = nullptr;
  if (hipMalloc(&values, host.size() * 4) != hipSuccess || hipMalloc(&results, rows * 4) != hipSuccess) return 2;
  (void)hipMemcpy(values, host.data(), host.size() * 4, hipMemcpyHostToDevice);
  (void)hipMemset(results, 0, rows * 4);
  tiles<<<rows / 16, 16>>>(values, results, rows, columns);
  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}
