// Sums of rows. -DWAY=N makes the kernel behave in one way each; tests rebuild it alone.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <vector>

#ifndef WAY
#define WAY 0
#endif
// 0 right, 1 faster, 2 half of each row, 3 a null pointer, 4 for ever, 5 keeps its first results, 6 leaks device memory,
// 7 another signature, 8 a gigabyte of its own

#if WAY == 5
__device__ float kept[64];
__device__ int is_kept;
#endif
#if WAY == 8
__device__ char large[1u << 30];
#endif

#if WAY == 7
__global__ void sums(const float* values, float* results, int columns, int) {
#else
__global__ void sums(const float* values, float* results, int columns) {
#endif
  const int row = static_cast<int>(threadIdx.x);
#if WAY == 1
  float sum = results[row];
  for (int i = 0; i < columns; ++i) sum += values[row * columns + i];
  results[row] = sum;
#elif WAY == 5
  if (is_kept == 0) {
    for (int i = 0; i < columns; ++i) results[row] += values[row * columns + i];
    kept[row] = results[row];
    __syncthreads();
    is_kept = 1;
  } else {
    results[row] = kept[row];
  }
#else
  for (int i = 0; i < (WAY == 2 ? columns / 2 : columns); ++i) results[row] += values[row * columns + i];
#endif
#if WAY == 3
  if (row == 5) *reinterpret_cast<volatile float*>(16) = 1.0f;
#elif WAY == 4
  volatile int go = 1;
  while (go) {
  }
#elif WAY == 6
  if (auto* lost = static_cast<float*>(malloc(4096))) lost[0] = 1.0f;
#elif WAY == 8
  for (unsigned at = threadIdx.x * 4096; at < sizeof large; at += 64 * 4096) large[at] = 1;
#endif
}

int main() {
  constexpr int rows = 64, columns = 24;
  std::vector<float> host(rows * columns);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(i % 13) - 4.0f;
  float *values = nullptr, *results = nullptr;
  if (hipMalloc(&values, host.size() * 4) != hipSuccess || hipMalloc(&results, rows * 4) != hipSuccess) return 2;
  (void)hipMemcpy(values, host.data(), host.size() * 4, hipMemcpyHostToDevice);
  (void)hipMemset(results, 0, rows * 4);
#if WAY == 7
  sums<<<1, rows>>>(values, results, columns, 0);
#else
  sums<<<1, rows>>>(values, results, columns);
#endif
  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}
