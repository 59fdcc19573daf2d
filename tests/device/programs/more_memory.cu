// One kernel that adds one to a word in each kind of memory that CUDA alone gives. Prints "KIND ADDRESS".
//
//   more_memory [host_pool]          host_pool: in memory of a pool on the host instead
#include <cstring>
#include <string>
#include <vector>

#include "check.cuh"
#include "pools.cuh"

__managed__ int managed_word = 70;

constexpr int k_words = 7;
struct Words {
  int* word[k_words];
};

__global__ void target(Words words, int count) {
  for (int i = 0; i < count; ++i) *words.word[i] += 1;
}

static int* on_host(unsigned flags) {
  void* host = nullptr;
  void* device = nullptr;
  CHECK(cudaHostAlloc(&host, 4096, flags));
  CHECK(cudaHostGetDevicePointer(&device, host, 0));
  return static_cast<int*>(device);
}

int main(int argc, char** argv) {
  Words words{};
  std::vector<std::string> names;
  const auto add = [&](const char* name, void* address) {
    words.word[names.size()] = static_cast<int*>(address);
    names.push_back(name);
  };
  if (argc > 1 && std::strcmp(argv[1], "host_pool") == 0) {
    add("host_pool", static_cast<int*>(from_pool(cudaMemLocationTypeHost, 4096)));
  } else {
    void* pitched = nullptr;
    std::size_t pitch = 0;
    CHECK(cudaMallocPitch(&pitched, &pitch, 1000, 600));
    cudaPitchedPtr volume{};
    CHECK(cudaMalloc3D(&volume, make_cudaExtent(1000, 64, 8)));
    // The last rows: what a size of width times height would miss.
    add("pitched", static_cast<char*>(pitched) + 599 * pitch + 996);
    add("volume", static_cast<char*>(volume.ptr) + (64 * 8 - 1) * volume.pitch + 996);
    add("own_pool", static_cast<int*>(from_pool(cudaMemLocationTypeDevice, 4096)));
    add("mapped", on_host(cudaHostAllocMapped));
    add("write_combined", on_host(cudaHostAllocMapped | cudaHostAllocWriteCombined));
    add("portable", on_host(cudaHostAllocPortable));
    void* variable = nullptr;
    CHECK(cudaGetSymbolAddress(&variable, managed_word));
    add("managed_variable", variable);
  }
  const int count = static_cast<int>(names.size());
  for (int i = 0; i < count; ++i) {
    const int value = 10 * (i + 1);
    CHECK(cudaMemcpy(words.word[i], &value, sizeof value, cudaMemcpyDefault));
  }
  CHECK(cudaDeviceSynchronize());
  target<<<1, 1>>>(words, count);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < count; ++i) {
    int value = 0;
    CHECK(cudaMemcpy(&value, words.word[i], sizeof value, cudaMemcpyDefault));
    EXPECT(value == 10 * (i + 1) + 1);
    std::printf("%s %p\n", names[i].c_str(), static_cast<void*>(words.word[i]));
  }
  std::printf("ok\n");
  return 0;
}
