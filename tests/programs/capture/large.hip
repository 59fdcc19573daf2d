// MIB mebibytes of device memory that does not compress, and a target that changes one word in each page, or in the
// first PAGES of them. Prints its anonymous memory. usage: large MIB [PAGES]
#include <fstream>
#include <string>

#include "hip_check.hpp"

__global__ void fill(unsigned long* data, unsigned long count) {
  for (unsigned long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    unsigned long x = (i + 1) * 0x9E3779B97F4A7C15ul;
    x ^= x >> 31;
    data[i] = x * 0xBF58476D1CE4E5B9ul;
  }
}
__global__ void target(unsigned long* data, unsigned long pages) {
  const unsigned long i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < pages) data[i * 512] = i;
}

int main(int argc, char** argv) {
  const std::size_t bytes = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 64) << 20;
  const std::size_t pages = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : bytes / 4096;
  unsigned long* data;
  HIP_OK(hipMalloc(&data, bytes));
  fill<<<256, 256>>>(data, bytes / 8);
  HIP_DONE();
  target<<<static_cast<unsigned>((pages + 255) / 256), 256>>>(data, pages);
  HIP_DONE();
  unsigned long word = 0;
  HIP_OK(hipMemcpy(&word, data + 512 * (pages - 1), sizeof word, hipMemcpyDeviceToHost));
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("RssAnon", 0) == 0) std::printf("%s\n", line.c_str());
  std::printf("done %d\n", word == pages - 1);
  std::fflush(stdout);
  return word == pages - 1 ? 0 : 1;
}
