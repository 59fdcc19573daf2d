// __device__ variables: initial values, use by several kernels, reading and writing through their symbols.
#include "hip_check.hpp"

__device__ int table[8] = {1, 2, 3, 5, 8, 13, 21, 34};
__device__ unsigned long long total;
__device__ int* indirect = table;

__global__ void accumulate() {
  atomicAdd(&total, static_cast<unsigned long long>(indirect[threadIdx.x % 8]));
}

__global__ void change(int factor) { table[threadIdx.x] *= factor; }

int main() {
  Tally tally("device_globals");
  accumulate<<<4, 64>>>();
  HIP_DONE();
  unsigned long long sum = 0;
  HIP_OK(hipMemcpyFromSymbol(&sum, HIP_SYMBOL(total), sizeof sum));
  tally.equal("total", 0, sum, 4ull * 8 * 87);
  change<<<1, 8>>>(10);
  HIP_DONE();
  std::vector<int> values(8);
  HIP_OK(hipMemcpyFromSymbol(values.data(), HIP_SYMBOL(table), sizeof table));
  tally.equal("table", values, {10, 20, 30, 50, 80, 130, 210, 340});
  const unsigned long long start = 1000;
  HIP_OK(hipMemcpyToSymbol(HIP_SYMBOL(total), &start, sizeof start));
  accumulate<<<1, 8>>>();
  HIP_DONE();
  void* address = nullptr;
  std::size_t size_bytes = 0;
  HIP_OK(hipGetSymbolAddress(&address, HIP_SYMBOL(total)));
  HIP_OK(hipGetSymbolSize(&size_bytes, HIP_SYMBOL(total)));
  tally.equal("size", 0, size_bytes, sizeof total);
  HIP_OK(hipMemcpy(&sum, address, sizeof sum, hipMemcpyDeviceToHost));
  tally.equal("total", 1, sum, 1000ull + 870);
  return tally.finish();
}
