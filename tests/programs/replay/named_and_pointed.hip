// One kernel that reaches the same module variables by name, by a pointer in its arguments and by a pointer in memory.
// Variants: NOTHING does nothing; BY_NAME and BY_POINTER go one way only, with the same results; OTHER_TABLE begins
// with other values in a table that the captured kernel writes, and in a variable that nobody does.
#include "hip_check.hpp"

__device__ int total = 7;
#ifdef OTHER_TABLE
__device__ int padding[5000] = {9};       // moves everything
__device__ int table[4] = {10, 2, 3, 4};
__device__ int untouched = 50;
#else
__device__ int untouched = 5;
__device__ int table[4] = {1, 2, 3, 4};
#endif
__constant__ int factor = 3;
static __device__ int hidden = 100;  // no other code can name it

struct Links {
  int* total;
  int* table;
  const int* factor;
};

__global__ void reach(int* total_argument, const Links* links, int* out) {
#ifdef NOTHING
  return;
#endif
#ifdef OTHER_TABLE
  out[3] = table[0] + padding[0] + total + untouched;
  return;
#endif
#ifdef BY_POINTER
  *total_argument += 111;
  links->table[1] = links->table[0] + *links->factor;
  hidden += *total_argument;
  out[0] = *total_argument;
  out[1] = links->table[1] * *links->factor;
  out[2] = hidden;
  return;
#endif
#ifdef BY_NAME
  total += 111;
  table[1] = table[0] + factor;
  hidden += total;
  out[0] = total;
  out[1] = table[1] * factor;
  out[2] = hidden;
  return;
#endif
  total += 1;                                 // by name
  *total_argument += 10;                      // by argument
  *links->total += 100;                       // by memory
  hidden += *total_argument;
  links->table[1] = table[0] + *links->factor;
  out[0] = total;
  out[1] = table[1] * factor;
  out[2] = hidden;
  if (untouched != 5) out[3] = untouched;
}

template <typename T>
T* address_of(const void* symbol) {
  void* address = nullptr;
  HIP_OK(hipGetSymbolAddress(&address, symbol));
  return static_cast<T*>(address);
}

int main() {
  const int new_factor = 5;
  HIP_OK(hipMemcpyToSymbol(HIP_SYMBOL(factor), &new_factor, sizeof new_factor));
  const Links links{address_of<int>(&total), address_of<int>(&table), address_of<int>(&factor)};
  const DeviceArray<Links> device_links(std::vector<Links>{links});
  const DeviceArray<int> out(std::vector<int>(4, 0));
  for (int round = 1; round <= 2; ++round) {
    reach<<<1, 1>>>(links.total, device_links.get(), out.get());
    HIP_DONE();
  }
  Tally tally("named_and_pointed");
  tally.equal("out", out.read(), {229, 30, 100 + 118 + 229, 0});
  return tally.finish();
}
