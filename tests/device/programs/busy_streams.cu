// Four threads, each with a stream of its own, launch the same kernel all the time; each buffer belongs to one thread,
// and one counter to all. What is captured must be consistent, whatever the others do.
#include <thread>
#include <vector>

#include "check.cuh"

__global__ void advance(unsigned* own, unsigned* shared_counter, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) own[i] = own[i] * 3u + 1u;
  if (i == 0) atomicAdd(shared_counter, 1u);
}

int main() {
  const int threads = 4;
  const int rounds = 500;
  const int count = 1 << 18;
  unsigned* counter = nullptr;
  CHECK(cudaMalloc(&counter, sizeof(unsigned)));
  CHECK(cudaMemset(counter, 0, sizeof(unsigned)));
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([=] {
      cudaStream_t stream;
      CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      unsigned* own = nullptr;
      CHECK(cudaMalloc(&own, count * sizeof(unsigned)));
      CHECK(cudaMemsetAsync(own, t, count * sizeof(unsigned), stream));
      for (int i = 0; i < rounds; ++i) advance<<<count / 256, 256, 0, stream>>>(own, counter, count);
      unsigned first = 0;
      CHECK(cudaMemcpyAsync(&first, own, sizeof first, cudaMemcpyDeviceToHost, stream));
      CHECK(cudaStreamSynchronize(stream));
      unsigned expected = 0x01010101u * static_cast<unsigned>(t);
      for (int i = 0; i < rounds; ++i) expected = expected * 3u + 1u;
      EXPECT(first == expected);
    });
  }
  for (std::thread& worker : workers) worker.join();
  unsigned total = 0;
  CHECK(cudaMemcpy(&total, counter, sizeof total, cudaMemcpyDeviceToHost));
  EXPECT(total == static_cast<unsigned>(threads * rounds));
  std::printf("ok\n");
  return 0;
}
