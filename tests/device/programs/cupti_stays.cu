// nvcc: -I/usr/local/cuda/extras/CUPTI/include
// cupti_stays CUPTI THREADS: says whether CUPTI has left the process some time behind the target. An attribute of its own that the
// program has set has its first value again then.
#include <cupti.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "check.cuh"

__global__ void target(int* data) { *data += 1; }

template <typename Function>
Function* find(void* library, const char* name) {
  auto* found = reinterpret_cast<Function*>(dlsym(library, name));
  EXPECT(found != nullptr);
  return found;
}

int main(int, char** words) {
  void* cupti = dlopen(words[1], RTLD_NOW);
  EXPECT(cupti != nullptr);
  auto* set = find<decltype(cuptiActivitySetAttribute)>(cupti, "cuptiActivitySetAttribute");
  auto* get = find<decltype(cuptiActivityGetAttribute)>(cupti, "cuptiActivityGetAttribute");
  int* data = nullptr;
  CHECK(cudaMalloc(&data, sizeof *data));
  CHECK(cudaMemset(data, 0, sizeof *data));
  if (std::atoi(words[2]) == 2) {
    std::thread([] {
      void* other = nullptr;
      CHECK(cudaMalloc(&other, 64));
      CHECK(cudaFree(other));
    }).join();
  }
  constexpr std::size_t k_mine = 12345678;
  std::size_t value = k_mine;
  std::size_t bytes = sizeof value;
  EXPECT(set(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &bytes, &value) == CUPTI_SUCCESS);
  for (int i = 0; i < 200; ++i) {
    target<<<1, 1>>>(data);
    CHECK(cudaDeviceSynchronize());
    usleep(10'000);
  }
  EXPECT(get(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &bytes, &value) == CUPTI_SUCCESS);
  int found = 0;
  CHECK(cudaMemcpy(&found, data, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == 200);
  std::printf(value == k_mine ? "stays\n" : "gone\n");
  return 0;
}
