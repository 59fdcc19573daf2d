// goes_on THREADS [LATE_US]: so many launch kernels and graphs, allocate, and make streams all the time, for a second behind the target;
// 0: the thread that launches the target does all that, too. LATE_US: they begin so long behind the target, while its thread waits
// for a stream of its own all the time. Whatever leaves the process meanwhile, nothing of theirs may be lost.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "check.cuh"

__global__ void count(unsigned* counter) { *counter += 1; }
__global__ void target(unsigned* counter) { *counter += 1; }

static std::atomic<int> g_ready{0};   // threads that have recorded their graph

static unsigned launch_until(const std::function<bool()>& done) {
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
  ++g_ready;
  unsigned expected = 0;
  while (!done()) {
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

int main(int count_of_words, char** words) {
  const int threads = std::atoi(words[1]);
  const auto late = std::chrono::microseconds(count_of_words > 2 ? std::atoi(words[2]) : -1);
  std::atomic<bool> is_over{false};
  std::vector<std::thread> others;
  const auto begin = [&] {
    for (int i = 0; i < threads; ++i) others.emplace_back([&] { EXPECT(launch_until([&] { return is_over.load(); }) > 0); });
  };
  unsigned* counter = nullptr;
  CHECK(cudaMalloc(&counter, sizeof *counter));
  CHECK(cudaMemset(counter, 0, sizeof *counter));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  if (late.count() < 0) begin();
  while (late.count() < 0 && g_ready < threads) std::this_thread::yield();   // nobody may wait for the device before
  for (int i = 0; i < 10; ++i) target<<<1, 1>>>(counter);
  CHECK(cudaDeviceSynchronize());
  const auto now = std::chrono::steady_clock::now;
  const auto end = now() + std::chrono::seconds(1);
  if (late.count() >= 0) {
    for (const auto at = now() + late; now() < at;) CHECK(cudaStreamSynchronize(stream));
    begin();
    while (now() < end) CHECK(cudaStreamSynchronize(stream));
  } else if (threads == 0) {
    EXPECT(launch_until([&] { return now() > end; }) > 0);
  } else {
    std::this_thread::sleep_until(end);
  }
  is_over = true;
  for (std::thread& thread : others) thread.join();
  unsigned found = 0;
  CHECK(cudaMemcpy(&found, counter, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == 10);
  std::printf("ok\n");
  return 0;
}
