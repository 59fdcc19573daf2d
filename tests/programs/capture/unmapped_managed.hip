// Unmaps managed memory while the target runs: the state before the target holds it, that after it cannot.
// Prints "NAME ADDRESS".
#include <sys/mman.h>

#include "hip_check.hpp"

__global__ void target(int* data, volatile int* flags) {
  flags[0] = 1;
  __threadfence_system();
  while (flags[1] == 0) HIP_KERNEL_WAITS();
  *data += 1;
}

int main() {
  constexpr std::size_t k_bytes = 1 << 20;
  Tally tally("unmapped_managed");
  const DeviceArray<int> data(std::vector<int>{41});
  int* made = nullptr;
  int* unmapped = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&made), 4096, hipHostMallocCoherent));
  HIP_OK(hipMallocManaged(reinterpret_cast<void**>(&unmapped), k_bytes));
  volatile int* flags = made;
  flags[0] = 0;
  flags[1] = 0;
  unmapped[0] = 7;
  target<<<1, 1>>>(data.get(), flags);
  while (flags[0] == 0) {
  }
  tally.equal("munmap", 0, munmap(unmapped, k_bytes), 0);
  flags[1] = 1;
  HIP_DONE();
  tally.equal("data", data.read(), std::vector<int>{42});
  std::printf("data %p\nunmapped %p\n", static_cast<void*>(data.get()), static_cast<void*>(unmapped));
  return tally.finish();
}
