// A thread that fills pinned memory all the time, as data loaders do, beside a kernel that has nothing to do with it.
//
//   host_writer [shared]             shared: the kernel writes the beginning of the same block
#include <atomic>
#include <string>
#include <thread>

#include "check.cuh"

// For so long that the thread gets a processor meanwhile, on a busy machine, too.
__global__ void target(float* out) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < 20'000'000);
  out[threadIdx.x] += 1.0f;
}

int main(int argc, char** argv) {
  constexpr int k_words = 8192;
  constexpr int k_first = 1024;
  unsigned* loaded = nullptr;
  CHECK(cudaMallocHost(&loaded, k_words * sizeof(unsigned)));
  auto* out = reinterpret_cast<float*>(loaded);
  if (argc == 1 || argv[1] != std::string("shared")) CHECK(cudaMalloc(&out, 256 * sizeof(float)));
  CHECK(cudaMemset(out, 0, 256 * sizeof(float)));
  std::atomic<bool> done{false};
  std::atomic<bool> has_begun{false};
  std::thread loader([&] {
    for (unsigned round = 1; !done; ++round) {
      has_begun = round > 2;
      for (int i = k_first; i < k_words; ++i) static_cast<volatile unsigned*>(loaded)[i] = round;
    }
  });
  while (!has_begun) std::this_thread::yield();
  for (int i = 0; i < 4; ++i) target<<<1, 256>>>(out);
  CHECK(cudaDeviceSynchronize());
  done = true;
  loader.join();
  float first = 0;
  CHECK(cudaMemcpy(&first, out, sizeof first, cudaMemcpyDefault));
  EXPECT(first == 4.0f);
  std::printf("ok\n");
  return 0;
}
