// Grows right behind the target, as caching allocators do in a first pass: by so much that it fits only where nothing else lies
// on the device.
//
//   growing [async]                  async: by cudaMallocAsync
#include <string>

#include "check.cuh"

constexpr std::size_t k_gib = std::size_t{1} << 30;
constexpr std::size_t k_words = 4 * k_gib / sizeof(unsigned);

__global__ void target(unsigned* data) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < k_words; i += std::size_t{gridDim.x} * blockDim.x) {
    data[i] += static_cast<unsigned>(i >> 20) + 1;  // easy to compress
  }
}

int main(int argc, char** argv) {
  const bool async = argc > 1 && std::string(argv[1]) == "async";
  unsigned* data = nullptr;
  CHECK(cudaMalloc(&data, k_words * sizeof(unsigned)));
  CHECK(cudaMemset(data, 0, k_words * sizeof(unsigned)));
  target<<<1056, 256>>>(data);
  CHECK(cudaDeviceSynchronize());
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  CHECK(cudaMemGetInfo(&free_bytes, &total));
  target<<<1056, 256>>>(data);
  void* more = nullptr;
  if (async) {
    CHECK(cudaMallocAsync(&more, free_bytes - 2 * k_gib, nullptr));
    CHECK(cudaDeviceSynchronize());
  } else {
    CHECK(cudaMalloc(&more, free_bytes - 2 * k_gib));
  }
  std::printf("ok\n");
  return 0;
}
