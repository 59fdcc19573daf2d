// A program that uses CUPTI itself: it subscribes before its first call of CUDA's, or behind it, as the argument says, and
// prints what came of that.
//
//   subscriber before|behind
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "check.cuh"

__global__ void target(float* data, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = data[i] * 2 + 1;
}

// As cupti.h, which not every toolkit has, declares them.
using Callback = void (*)(void*, int, unsigned, const void*);
using Subscribe = int (*)(void** subscriber, Callback, void* data);

void nothing(void*, int, unsigned, const void*) {}

// The same library as ours, whichever of the listed ones loads.
void* library() {
  std::string listed = std::getenv("KERNCAP_CUPTI") == nullptr ? "" : std::getenv("KERNCAP_CUPTI");
  for (char* path = std::strtok(listed.data(), ":"); path != nullptr; path = std::strtok(nullptr, ":")) {
    if (void* loaded = dlopen(path, RTLD_NOW)) return loaded;
  }
  return dlopen("libcupti.so.13", RTLD_NOW);
}

void subscribe() {
  void* cupti = library();
  if (cupti == nullptr) std::exit(3);
  void* subscriber = nullptr;
  std::printf("subscribed: %d\n", reinterpret_cast<Subscribe>(dlsym(cupti, "cuptiSubscribe"))(&subscriber, nothing, nullptr));
  std::fflush(stdout);
}

int main(int, char** words) {
  const bool before = words[1] != nullptr && std::strcmp(words[1], "before") == 0;
  if (before) subscribe();
  constexpr int k_count = 1 << 16;
  float* data = nullptr;
  CHECK(cudaMalloc(&data, k_count * sizeof(float)));
  CHECK(cudaMemset(data, 0, k_count * sizeof(float)));
  if (!before) subscribe();
  for (int round = 0; round < 3; ++round) target<<<k_count / 256, 256>>>(data, k_count);
  CHECK(cudaDeviceSynchronize());
  float first = 0;
  CHECK(cudaMemcpy(&first, data, sizeof first, cudaMemcpyDeviceToHost));
  std::puts(first == 7 ? "ok" : "wrong");
  return first == 7 ? 0 : 1;
}
