// ends_behind at_once | handler: main returns directly behind the target; a handler of exit() calls the driver, too.
#include <cstdlib>
#include <cstring>

#include "check.cuh"

__global__ void target(int* data) { data[threadIdx.x] += 1; }

static int* g_data = nullptr;

static void go_on() {
  for (int i = 0; i < 100; ++i) {
    target<<<1, 32>>>(g_data);
    CHECK(cudaDeviceSynchronize());
  }
  int found = 0;
  CHECK(cudaMemcpy(&found, g_data, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == 101);
  CHECK(cudaFree(g_data));
  std::printf("ok\n");
}

int main(int, char** words) {
  constexpr std::size_t k_bytes = 128 << 20;   // more than is sent before the program goes on
  CHECK(cudaMalloc(&g_data, k_bytes));
  CHECK(cudaMemset(g_data, 0, k_bytes));
  // Made later than the runtime's own handlers, so that it runs before them; kc-capture's is made later still, at the target, and has run.
  if (std::strcmp(words[1], "handler") == 0) EXPECT(std::atexit(go_on) == 0);
  target<<<1, 32>>>(g_data);
  CHECK(cudaDeviceSynchronize());
  if (std::strcmp(words[1], "at_once") == 0) std::printf("ok\n");
  return 0;
}
