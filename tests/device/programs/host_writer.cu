// A thread that fills pinned memory all the time, as data loaders do, beside a kernel that has nothing to do with it.
#include <atomic>
#include <thread>

#include "check.cuh"

__global__ void target(float* out) { out[threadIdx.x] += 1.0f; }

int main() {
  constexpr int k_words = 8192;
  float* out = nullptr;
  CHECK(cudaMalloc(&out, 256 * sizeof(float)));
  CHECK(cudaMemset(out, 0, 256 * sizeof(float)));
  unsigned* loaded = nullptr;
  CHECK(cudaMallocHost(&loaded, k_words * sizeof(unsigned)));
  std::atomic<bool> done{false};
  std::thread loader([&] {
    for (unsigned round = 1; !done; ++round) {
      for (int i = 0; i < k_words; ++i) static_cast<volatile unsigned*>(loaded)[i] = round;
    }
  });
  for (int i = 0; i < 4; ++i) target<<<1, 256>>>(out);
  CHECK(cudaDeviceSynchronize());
  done = true;
  loader.join();
  float first = 0;
  CHECK(cudaMemcpy(&first, out, sizeof first, cudaMemcpyDeviceToHost));
  EXPECT(first == 4.0f);
  std::printf("ok\n");
  return 0;
}
