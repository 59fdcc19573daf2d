// nvcc: -I/usr/local/cuda/extras/CUPTI/include
// cupti_stays CUPTI THREADS: says whether CUPTI has left the process some time behind the target. An attribute of its own that the
// program has set has its first value again then.
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "check.cuh"
#include "cupti_calls.cuh"

__global__ void target(int* data) { *data += 1; }

int main(int, char** words) {
  open_cupti(words[1]);
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
  EXPECT(CUPTI(cuptiActivitySetAttribute)(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &bytes, &value) == CUPTI_SUCCESS);
  for (int i = 0; i < 200; ++i) {
    target<<<1, 1>>>(data);
    CHECK(cudaDeviceSynchronize());
    usleep(10'000);
  }
  EXPECT(CUPTI(cuptiActivityGetAttribute)(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &bytes, &value) == CUPTI_SUCCESS);
  int found = 0;
  CHECK(cudaMemcpy(&found, data, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == 200);
  std::printf(value == k_mine ? "stays\n" : "gone\n");
  return 0;
}
