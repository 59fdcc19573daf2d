// Frees managed memory that a kernel has used: one is only unmapped, at another's place lies memory that nobody may read.
// Then the target, on managed memory that is still there. Prints "NAME ADDRESS".
#include <sys/mman.h>

#include "hip_check.hpp"

__global__ void before(int* one, int* other) {
  one[threadIdx.x] = 1;
  other[threadIdx.x] = 1;
}
__global__ void target(int* data) { data[threadIdx.x] += 1; }

int main() {
  constexpr std::size_t k_bytes = 1 << 20;
  Tally tally("freed_managed");
  int* kept = nullptr;
  int* unmapped = nullptr;
  int* replaced = nullptr;
  for (int** pointer : {&kept, &unmapped, &replaced})
    HIP_OK(hipMallocManaged(reinterpret_cast<void**>(pointer), k_bytes));
  kept[0] = 41;
  before<<<1, 64>>>(unmapped, replaced);
  HIP_DONE();
  HIP_OK(hipFree(unmapped));
  HIP_OK(hipFree(replaced));
  void* barred = mmap(replaced, k_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  tally.expect(barred == replaced, "the place of freed memory is free", 0, 0, 0);
  target<<<1, 1>>>(kept);
  HIP_DONE();
  tally.equal("kept", 0, kept[0], 42);
  std::printf("kept %p\nreplaced %p\n", static_cast<void*>(kept), static_cast<void*>(replaced));
  return tally.finish();
}
