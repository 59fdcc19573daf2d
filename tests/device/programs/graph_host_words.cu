// A thread of the program counts in host memory while a kernel of a graph is captured, which runs twice and is put back: neither
// the thread's words nor the kernel's may show it.
//
//   graph_host_words pinned          both count in one block of pinned memory
//   graph_host_words managed         the thread counts in managed memory that no kernel is given
//   graph_host_words pointer         the kernel finds its pinned word behind a pointer in memory: nobody can tell whose it is
#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "check.cuh"

constexpr int k_launches = 4;
constexpr int k_words = 1 << 16;

__global__ void target(int** where, int* data) {
  int* word = where == nullptr ? data : *where;
  *word += 1;
}

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  int* pinned = nullptr;
  int* managed = nullptr;
  int** where = nullptr;
  CHECK(cudaMallocHost(&pinned, k_words * sizeof *pinned));
  CHECK(cudaMallocManaged(&managed, k_words * sizeof *managed));
  CHECK(cudaMalloc(&where, sizeof *where));
  std::memset(pinned, 0, k_words * sizeof *pinned);
  std::memset(managed, 0, k_words * sizeof *managed);
  int* counted = pinned + k_words / 2;          // by the kernel
  CHECK(cudaMemcpy(where, &counted, sizeof counted, cudaMemcpyHostToDevice));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  target<<<1, 1, 0, stream>>>(mode == "pointer" ? where : nullptr, mode == "pointer" ? nullptr : counted);
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));

  std::atomic<bool> done{false};
  int mine = 0;
  std::thread counter([&] {
    if (mode == "pointer") return;
    volatile int* word = mode == "managed" ? managed : pinned;
    for (; !done; ++mine) *word = *word + 1;
  });
  for (int i = 0; i < k_launches; ++i) {
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
  done = true;
  counter.join();
  EXPECT(*(mode == "managed" ? managed : pinned) == mine);
  if (mode != "pointer") EXPECT(*counted == k_launches);
  std::printf("ok\n");
  return 0;
}
