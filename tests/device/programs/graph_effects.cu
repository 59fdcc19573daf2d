// A kernel of a graph is captured by running what stands before it once more: what that does besides changing memory that is
// put back must not show in the program.
//
//   graph_effects both_ways          the graph copies from and to ordinary memory
//   graph_effects loader             a thread fills pinned memory meanwhile, and sees to it that nothing of it is lost
//   graph_effects waits              a kernel waits for what the program does once it has launched the graph
#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "check.cuh"

__global__ void add_one(int* data) { *data += 1; }
__global__ void wait_for(volatile int* flag, int* gave_up) {
  const long long begin = clock64();
  while (*flag == 0) {
    if (clock64() - begin > 20'000'000'000) {  // some ten seconds: a test that fails must end
      *gave_up = 1;
      return;
    }
  }
}
__global__ void target(int* data) { *data += 10; }

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  constexpr int k_launches = 4;
  constexpr std::size_t k_loaded = 1 << 22;
  int* data = nullptr;
  CHECK(cudaMalloc(&data, sizeof *data));
  CHECK(cudaMemset(data, 0, sizeof *data));
  int* results = nullptr;
  CHECK(cudaMalloc(&results, sizeof *results));
  CHECK(cudaMemset(results, 0, sizeof *results));
  int* flag = nullptr;
  CHECK(cudaMallocHost(&flag, sizeof *flag));
  unsigned* loaded = nullptr;
  CHECK(cudaMallocHost(&loaded, k_loaded * sizeof *loaded));
  std::memset(loaded, 0, k_loaded * sizeof *loaded);
  auto* counter = new int(0);

  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  if (mode == "both_ways") CHECK(cudaMemcpyAsync(data, counter, sizeof *counter, cudaMemcpyHostToDevice, stream));
  if (mode == "waits") wait_for<<<1, 1, 0, stream>>>(flag, results);
  add_one<<<1, 1, 0, stream>>>(data);
  if (mode == "both_ways") CHECK(cudaMemcpyAsync(counter, data, sizeof *counter, cudaMemcpyDeviceToHost, stream));
  target<<<1, 1, 0, stream>>>(data);
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));

  std::atomic<bool> done{false};
  std::size_t lost = 0;
  std::thread loader([&] {
    if (mode != "loader") return;
    for (unsigned round = 1; !done; ++round) {
      for (std::size_t i = 0; i < k_loaded; ++i) {
        volatile unsigned* word = loaded + i;
        lost += *word != round - 1;
        *word = round;
      }
    }
  });
  for (int i = 0; i < k_launches; ++i) {
    *flag = 0;
    CHECK(cudaGraphLaunch(executable, stream));
    *flag = 1;
    CHECK(cudaStreamSynchronize(stream));
  }
  done = true;
  loader.join();
  int value = 0;
  int gave_up = 0;
  CHECK(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&gave_up, results, sizeof gave_up, cudaMemcpyDeviceToHost));
  EXPECT(lost == 0);
  EXPECT(gave_up == 0);
  // Where a capture was given up, what it had begun may have been done twice.
  if (mode == "both_ways") EXPECT(*counter == k_launches);
  if (mode == "loader") EXPECT(value == 11 * k_launches);
  std::printf("ok\n");
  return 0;
}
