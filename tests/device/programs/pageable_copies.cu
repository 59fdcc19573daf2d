// A kernel beside a thread that copies ordinary memory to the device all the time, which the driver does piece by piece.
// nvcc: -Xcompiler -pthread
#include <atomic>
#include <cstring>
#include <thread>

#include "check.cuh"

__global__ void target(int* data) { data[threadIdx.x] += 1; }

int main() {
  constexpr std::size_t k_bytes = 128 << 20;
  char* elsewhere = nullptr;
  int* data = nullptr;
  CHECK(cudaMalloc(&elsewhere, k_bytes));
  CHECK(cudaMalloc(&data, 64 * sizeof(int)));
  CHECK(cudaMemset(data, 0, 64 * sizeof(int)));
  std::atomic<int> copies{0};
  std::atomic<bool> over{false};
  std::thread loader([&] {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    auto* batch = static_cast<char*>(std::malloc(k_bytes));
    while (!over) {
      std::memset(batch, copies % 100, k_bytes);
      CHECK(cudaMemcpyAsync(elsewhere, batch, k_bytes, cudaMemcpyHostToDevice, stream));
      ++copies;
    }
  });
  while (copies == 0) std::this_thread::yield();
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int run = 0; run < 6; ++run) {
    target<<<1, 64, 0, stream>>>(data);
    CHECK(cudaStreamSynchronize(stream));
    for (const int before = copies; copies < before + 2;) std::this_thread::yield();
  }
  over = true;
  loader.join();
  int first = 0;
  CHECK(cudaMemcpy(&first, data, sizeof first, cudaMemcpyDeviceToHost));
  EXPECT(first == 6);
  std::printf("ok\n");
  return 0;
}
