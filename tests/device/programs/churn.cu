// Threads beside the kernel that is captured.
//
//   churn streams          make streams, use them once and give them up without a wait
//   churn sets             set memory, and copy it on the device
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "check.cuh"

constexpr int k_threads = 16;
constexpr int k_launches = 20;

__global__ void target(int* data) { data[threadIdx.x] = 3 * data[threadIdx.x] + 1; }

static void make_streams(char* memory, const std::atomic<bool>& done) {
  while (!done) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMemsetAsync(memory, 1, 4096, stream));
    CHECK(cudaStreamDestroy(stream));
  }
}

static void set_memory(char* memory, const std::atomic<bool>& done) {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (unsigned i = 0; !done; ++i) {
    CHECK(cudaMemsetAsync(memory, static_cast<int>(i & 0xFF), 2048, stream));
    CHECK(cudaMemcpyAsync(memory + 2048, memory, 2048, cudaMemcpyDeviceToDevice, stream));
    if (i % 8 == 0) CHECK(cudaStreamSynchronize(stream));
  }
  CHECK(cudaStreamSynchronize(stream));
}

int main(int argc, char** argv) {
  const auto work = argc > 1 && std::strcmp(argv[1], "sets") == 0 ? set_memory : make_streams;
  int* data = nullptr;
  CHECK(cudaMalloc(&data, 128 * sizeof(int)));
  CHECK(cudaMemset(data, 0, 128 * sizeof(int)));
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < k_threads; ++i) {
    char* memory = nullptr;
    CHECK(cudaMalloc(&memory, 4096));
    threads.emplace_back([memory, work, &done] { work(memory, done); });
  }
  usleep(100'000);
  int expected = 0;
  for (int i = 0; i < k_launches; ++i, expected = 3 * expected + 1) {
    target<<<1, 128>>>(data);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(nullptr));
    usleep(1000);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  int last = 0;
  CHECK(cudaMemcpy(&last, data + 127, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == expected);
  std::printf("ok\n");
  return 0;
}
