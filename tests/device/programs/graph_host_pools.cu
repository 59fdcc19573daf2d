// As graph_host_words.cu, in memory of the host that is no pinned block. The thread and the kernel count in words of one block.
//
//   graph_host_pools pool | managed_pool | mapped
//   graph_host_pools behind_pool | behind_mapped     the kernel finds its word behind a pointer in memory: nobody can tell whose it is
//   graph_host_pools device_only                     mapped for the device alone, and there is no thread
#include <atomic>
#include <string>
#include <thread>

#include "pools.cuh"

constexpr int k_launches = 4;
constexpr std::size_t k_bytes = 4 << 20;

__global__ void target(int** where, int* data) {
  int* word = where == nullptr ? data : *where;
  *word += 1;
}

static int* memory_of(const std::string& mode) {
  if (mode == "managed_pool") return static_cast<int*>(from_managed_pool(k_bytes));
  if (mode == "pool" || mode == "behind_pool") return static_cast<int*>(from_pool(cudaMemLocationTypeHost, k_bytes));
  return static_cast<int*>(mapped_on_host(k_bytes, mode != "device_only"));
}

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  CHECK(cudaFree(nullptr));
  int* words = memory_of(mode);
  int* counted = words + 64;
  CHECK(cudaMemset(words, 0, k_bytes));
  int** where = nullptr;
  CHECK(cudaMalloc(&where, 64 * sizeof *where));
  where += 32;   // its own address is no end of a block that may lie before it
  CHECK(cudaMemcpy(where, &counted, sizeof counted, cudaMemcpyHostToDevice));
  CHECK(cudaDeviceSynchronize());
  const bool is_behind = mode.rfind("behind", 0) == 0;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  target<<<1, 1, 0, stream>>>(is_behind ? where : nullptr, is_behind ? nullptr : counted);
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  std::atomic<bool> done{false};
  int mine = 0;
  std::thread counter([&] {
    if (mode == "device_only" || is_behind) return;
    for (volatile int* word = words; !done; ++mine) *word = *word + 1;
  });
  for (int i = 0; i < k_launches; ++i) {
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
  done = true;
  counter.join();
  int found[65];
  CHECK(cudaMemcpy(found, words, sizeof found, cudaMemcpyDefault));
  EXPECT(found[0] == mine);
  if (!is_behind) EXPECT(found[64] == k_launches);
  std::printf("ok\n");
  return 0;
}
