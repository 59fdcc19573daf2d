// Registers two ranges that overlap, and launches `target` with pointers into both to the same words.
#include <sys/mman.h>

#include "hip_check.hpp"

__global__ void target(int* written, const int* read) {
  written[threadIdx.x] += 1;
  __threadfence();
  written[64 + threadIdx.x] = read[threadIdx.x];
}

static char* registered(char* at, std::size_t bytes) {
  HIP_OK(hipHostRegister(at, bytes, hipHostRegisterMapped));
  void* device = nullptr;
  HIP_OK(hipHostGetDevicePointer(&device, at, 0));
  return static_cast<char*>(device);
}

int main() {
  Tally tally("registered_twice");
  constexpr std::size_t k_page = 4096;
  void* const space = mmap(nullptr, 3 * k_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* const first = registered(static_cast<char*>(space), 2 * k_page);
  char* const second = registered(static_cast<char*>(space) + k_page, 2 * k_page);
  target<<<1, 64>>>(reinterpret_cast<int*>(first + k_page), reinterpret_cast<int*>(second));
  HIP_DONE();
  const int* const words = reinterpret_cast<int*>(static_cast<char*>(space) + k_page);
  for (int i = 0; i < 128; ++i) tally.equal("word", i, words[i], 1);
  std::printf("first %p\nsecond %p\n", static_cast<void*>(first), static_cast<void*>(second));
  return tally.finish();
}
