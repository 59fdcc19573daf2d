// Records a graph while a kernel is captured: in another thread, on a stream of any kind and in any mode, or in the same
// thread while the state of a kernel is still on its way. The recording has to come out whole.
//
//   recordings thread blocking|other|own global|local|relaxed
//   recordings behind MEBIBYTES global|local|relaxed
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "check.cuh"

constexpr int k_nodes = 60;

__global__ void target(const int* from, int* to) { to[threadIdx.x] += from[threadIdx.x]; }
__global__ void recorded(int* data) { data[threadIdx.x] += 1; }

static cudaStreamCaptureMode mode_of(const std::string& word) {
  if (word == "global") return cudaStreamCaptureModeGlobal;
  return word == "local" ? cudaStreamCaptureModeThreadLocal : cudaStreamCaptureModeRelaxed;
}

// Begins, tells `begun`, and ends when `end` says so; then runs what was recorded.
template <typename End>
static void record(cudaStream_t stream, cudaStreamCaptureMode mode, int* data, std::atomic<bool>& begun, End end) {
  CHECK(cudaStreamBeginCapture(stream, mode));
  begun = true;
  for (int i = 0; i < k_nodes; ++i) {
    recorded<<<1, 32, 0, stream>>>(data);
    usleep(3000);
  }
  while (!end()) usleep(1000);
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  int* memory;
  CHECK(cudaMalloc(&memory, 3 * 32 * sizeof(int)));
  CHECK(cudaMemset(memory, 1, 3 * 32 * sizeof(int)));
  int *from = memory, *to = memory + 32, *data = memory + 64;
  cudaStream_t launches;
  CHECK(cudaStreamCreateWithFlags(&launches, cudaStreamNonBlocking));
  recorded<<<1, 32, 0, launches>>>(data);   // loaded before anything is recorded
  CHECK(cudaDeviceSynchronize());
  std::atomic<bool> begun{false};
  std::atomic<bool> launched{false};
  const cudaStreamCaptureMode mode = mode_of(argv[3]);
  if (argv[1] == std::string("thread")) {
    const std::string kind = argv[2];
    cudaStream_t stream = cudaStreamPerThread;
    if (kind == "blocking") CHECK(cudaStreamCreate(&stream));
    if (kind == "other") CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    // The kernel is loaded beforehand: that is forbidden to all threads in global mode.
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, target));
    std::thread thread([&] { record(stream, mode, data, begun, [&] { return launched.load(); }); });
    while (!begun) usleep(500);
    for (int i = 0; i < 3; ++i) {
      usleep(20'000);
      target<<<1, 32, 0, launches>>>(from, to);
      CHECK(cudaGetLastError());
    }
    launched = true;
    thread.join();
  } else {
    char* large;
    const std::size_t bytes = std::stoull(argv[2]) << 20;
    CHECK(cudaMalloc(&large, bytes));
    CHECK(cudaMemset(large, 3, bytes));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 3; ++i) {
      target<<<1, 32, 0, launches>>>(from, to);
      CHECK(cudaGetLastError());
    }
    record(launches, mode, data, begun, [] { return true; });
  }
  CHECK(cudaDeviceSynchronize());
  int seen[3 * 32];
  CHECK(cudaMemcpy(seen, memory, sizeof seen, cudaMemcpyDefault));
  constexpr int k_one = 0x01010101;
  for (int i = 0; i < 32; ++i) {
    EXPECT(seen[32 + i] == k_one * 4);
    EXPECT(seen[64 + i] == k_one + 1 + k_nodes);
  }
  std::puts("ok");
}
