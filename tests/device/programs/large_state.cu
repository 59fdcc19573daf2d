// Holds as many GiB as it is told, no two chunks the same; its target changes some words of each GiB, or all.
//
//   large_state GIB CHANGED_WORDS          of each GiB; 268435456 are all
#include <vector>

#include "check.cuh"

constexpr std::size_t k_words = (std::size_t{1} << 30) / sizeof(unsigned);

// Easy to compress: that is not what this is about.
__device__ unsigned word(std::size_t part, std::size_t i) { return static_cast<unsigned>((part << 18 | i >> 10) * 2654435761u); }

__global__ void fill(unsigned* data, std::size_t part) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < k_words; i += std::size_t{gridDim.x} * blockDim.x) {
    data[i] = word(part, i);
  }
}

__global__ void target(unsigned* const* parts, int count, std::size_t changed) {
  for (int part = 0; part < count; ++part) {
    for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < changed; i += std::size_t{gridDim.x} * blockDim.x) {
      parts[part][i] += 12345;
    }
  }
}

__global__ void count_wrong(const unsigned* data, std::size_t part, std::size_t changed, unsigned long long* wrong) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < k_words; i += std::size_t{gridDim.x} * blockDim.x) {
    if (data[i] != word(part, i) + (i < changed ? 12345 : 0)) atomicAdd(wrong, 1ull);
  }
}

int main(int argc, char** argv) {
  const int gib = argc > 1 ? std::atoi(argv[1]) : 1;
  const std::size_t changed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1024;
  std::vector<unsigned*> parts(gib);
  for (int i = 0; i < gib; ++i) {
    CHECK(cudaMalloc(&parts[i], k_words * sizeof(unsigned)));
    fill<<<1056, 256>>>(parts[i], i);
  }
  unsigned** table = nullptr;
  CHECK(cudaMalloc(&table, gib * sizeof(unsigned*)));
  CHECK(cudaMemcpy(table, parts.data(), gib * sizeof(unsigned*), cudaMemcpyDefault));
  target<<<1056, 256>>>(table, gib, changed);
  unsigned long long* wrong = nullptr;
  CHECK(cudaMallocManaged(&wrong, sizeof *wrong));
  *wrong = 0;
  for (int i = 0; i < gib; ++i) count_wrong<<<1056, 256>>>(parts[i], i, changed, wrong);
  CHECK(cudaDeviceSynchronize());
  EXPECT(*wrong == 0);
  std::printf("ok\n");
  return 0;
}
