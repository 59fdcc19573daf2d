// Threads that launch kernels and graphs, allocate, and make streams all the time, for a second behind the target: whatever
// comes to an end in the process meanwhile, nothing of theirs may be lost.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "check.cuh"

constexpr int k_threads = 4;

__global__ void count(unsigned* counter) { *counter += 1; }
__global__ void target(unsigned* counter) { *counter += 1; }

static unsigned launch_until(const std::atomic<bool>& done) {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  unsigned* counter = nullptr;
  CHECK(cudaMalloc(&counter, sizeof *counter));
  CHECK(cudaMemsetAsync(counter, 0, sizeof *counter, stream));
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 3; ++i) count<<<1, 1, 0, stream>>>(counter);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  unsigned expected = 0;
  while (!done) {
    for (int i = 0; i < 50; ++i) count<<<1, 1, 0, stream>>>(counter);
    CHECK(cudaGraphLaunch(executable, stream));
    expected += 53;
    void* more = nullptr;
    CHECK(cudaMallocAsync(&more, 1 << 20, stream));
    CHECK(cudaFreeAsync(more, stream));
    cudaStream_t other;
    CHECK(cudaStreamCreate(&other));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaStreamSynchronize(stream));
  }
  unsigned found = 0;
  CHECK(cudaMemcpyAsync(&found, counter, sizeof found, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(found == expected);
  return found;
}

int main() {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < k_threads; ++i) threads.emplace_back([&] { EXPECT(launch_until(done) > 0); });
  unsigned* counter = nullptr;
  CHECK(cudaMalloc(&counter, sizeof *counter));
  CHECK(cudaMemset(counter, 0, sizeof *counter));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (int i = 0; i < 10; ++i) target<<<1, 1>>>(counter);
  CHECK(cudaDeviceSynchronize());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  done = true;
  for (std::thread& thread : threads) thread.join();
  unsigned found = 0;
  CHECK(cudaMemcpy(&found, counter, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == 10);
  std::printf("ok\n");
  return 0;
}
