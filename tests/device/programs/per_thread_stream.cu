// A kernel on another thread's own default stream ends when the program says so, which is once it has launched the target.
#include <atomic>
#include <thread>

#include "check.cuh"

__global__ void target(int* data) { data[threadIdx.x] += 1; }
__global__ void until(const volatile int* word) {
  while (*word == 0) {
  }
}

int main() {
  int* data = nullptr;
  int* word = nullptr;
  CHECK(cudaMalloc(&data, 64 * sizeof *data));
  CHECK(cudaMallocHost(&word, sizeof *word));
  *word = 0;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMemsetAsync(data, 0, 64 * sizeof *data, stream));
  // Once, so that both kernels are loaded: a load would wait for one that runs.
  target<<<1, 64, 0, stream>>>(data);
  CHECK(cudaStreamSynchronize(stream));
  std::atomic<bool> is_launched{false};
  std::thread other([&] {
    cudaFuncAttributes loaded;
    CHECK(cudaFuncGetAttributes(&loaded, until));
    until<<<1, 1, 0, cudaStreamPerThread>>>(word);
    CHECK(cudaGetLastError());
    is_launched = true;
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  });
  while (!is_launched) std::this_thread::yield();
  target<<<1, 64, 0, stream>>>(data);
  *static_cast<volatile int*>(word) = 1;
  other.join();
  CHECK(cudaDeviceSynchronize());
  int first = 0;
  CHECK(cudaMemcpy(&first, data, sizeof first, cudaMemcpyDeviceToHost));
  EXPECT(first == 2);
  std::printf("ok\n");
  return 0;
}
