// Allocations that share pages: pieces of one page that are registered one by one, a range that was registered and whose
// middle is registered again, and small pieces of device memory side by side.
#include <sys/mman.h>

#include "hip_check.hpp"

constexpr int k_words = 100;

struct Pieces {
  int* first;
  int* second;
  int* inner;
  int* outer;
  int* small_a;
  int* small_b;
};

__global__ void add_up(Pieces p) {
  const int i = static_cast<int>(threadIdx.x);
  p.second[i] += p.first[i];
  p.outer[i] += p.inner[i];
  p.small_b[i] += p.small_a[i] + p.second[i];
}

int* registered(char* at, std::size_t bytes) {
  HIP_OK(hipHostRegister(at, bytes, hipHostRegisterMapped));
  void* device = nullptr;
  HIP_OK(hipHostGetDevicePointer(&device, at, 0));
  return static_cast<int*>(device);
}

int main() {
  constexpr std::size_t page = 4096;
  void* space = mmap(nullptr, 16 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* bytes = static_cast<char*>(space);
  auto* words = static_cast<int*>(space);
  for (std::size_t i = 0; i < 16 * page / sizeof(int); ++i) words[i] = static_cast<int>(i % 1000);
  const DeviceArray<int> small_a(std::vector<int>(k_words, 7)), small_b(std::vector<int>(k_words, 11));
  const Pieces pieces{registered(bytes + 100, k_words * sizeof(int)),
                      registered(bytes + 2000, k_words * sizeof(int)),
                      registered(bytes + 6 * page, page),
                      registered(bytes + 4 * page, 8 * page),
                      small_a.get(),
                      small_b.get()};
  std::printf("first %p\nsecond %p\ninner %p\nouter %p\n", static_cast<void*>(pieces.first),
              static_cast<void*>(pieces.second), static_cast<void*>(pieces.inner), static_cast<void*>(pieces.outer));
  add_up<<<1, k_words>>>(pieces);
  HIP_DONE();
  Tally tally("shared_pages");
  for (int i = 0; i < k_words; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const int second = (i + 500) % 1000 + (i + 25) % 1000;
    tally.equal("second", i, pieces.second[i], second);
    tally.equal("outer", i, words[4 * page / sizeof(int) + at], (4096 + i) % 1000 + (6144 + i) % 1000);
    tally.equal("small_b", i, small_b.read()[at], 11 + 7 + second);
  }
  return tally.finish();
}
