// ends_behind at_once | destructor: main returns directly behind the target, or what is destroyed behind it calls the driver as well.
#include <cstring>

#include "check.cuh"

__global__ void target(int* data) { data[threadIdx.x] += 1; }

struct Last {
  int* data = nullptr;
  ~Last() {
    if (data == nullptr) return;
    int found = 0;
    for (int i = 0; i < 100; ++i) {
      target<<<1, 32>>>(data);
      CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaMemcpy(&found, data, sizeof found, cudaMemcpyDeviceToHost));
    EXPECT(found == 101);
    CHECK(cudaFree(data));
    std::printf("ok\n");
    std::fflush(stdout);
  }
};
static Last g_last;

int main(int, char** words) {
  int* data = nullptr;
  constexpr std::size_t k_bytes = 128 << 20;   // more than is sent before the program goes on
  CHECK(cudaMalloc(&data, k_bytes));
  CHECK(cudaMemset(data, 0, k_bytes));
  target<<<1, 32>>>(data);
  CHECK(cudaDeviceSynchronize());
  if (std::strcmp(words[1], "destructor") == 0) {
    g_last.data = data;
  } else {
    std::printf("ok\n");
  }
  return 0;
}
