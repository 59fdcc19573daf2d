// Graphs in which something stands before `target` that does more than write memory.
//
//   odd_ancestors launches | heap | prints | events | events_gone
// nvcc: -rdc=true -lcudadevrt
#include <string>

#include "graph_nodes.cuh"

constexpr int k_launches = 3;

__global__ void bump(int* data) { *data += 1; }
__global__ void launches(cudaGraphExec_t inner) { cudaGraphLaunch(inner, cudaStreamGraphTailLaunch); }
__global__ void takes(void** kept) {
  if (*kept != nullptr) free(*kept);
  *kept = malloc(64);
}
__global__ void prints(int* data) { printf("found %d\n", *data); }
__global__ void target(int* data) { *data = *data * 3 + 7; }

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const bool has_events = mode.rfind("events", 0) == 0;
  int* data = nullptr;
  void** kept = nullptr;
  CHECK(cudaMalloc(&data, sizeof *data));
  CHECK(cudaMalloc(&kept, sizeof *kept));
  CHECK(cudaMemset(data, 0, sizeof *data));
  CHECK(cudaMemset(kept, 0, sizeof *kept));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  void* given[] = {&data};
  cudaGraph_t small;
  cudaGraphExec_t inner;
  CHECK(cudaGraphCreate(&small, 0));
  add_kernel(small, reinterpret_cast<void*>(bump), given);
  CHECK(cudaGraphInstantiate(&inner, small, cudaGraphInstantiateFlagDeviceLaunch));
  CHECK(cudaGraphUpload(inner, stream));

  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaEvent_t events[2];
  for (cudaEvent_t& event : events) CHECK(cudaEventCreate(&event));
  cudaGraphNode_t before;
  if (has_events) {
    CHECK(cudaGraphAddEventRecordNode(&before, graph, nullptr, 0, events[0]));
  } else {
    void* of_launches[] = {&inner};
    void* of_takes[] = {&kept};
    const bool is_launch = mode == "launches";
    void* kernel = reinterpret_cast<void*>(is_launch ? reinterpret_cast<void (*)()>(launches) :
                                           mode == "heap" ? reinterpret_cast<void (*)()>(takes) : reinterpret_cast<void (*)()>(prints));
    before = add_kernel(graph, kernel, is_launch ? of_launches : mode == "heap" ? of_takes : given);
  }
  add_kernel(graph, reinterpret_cast<void*>(target), given, 1, before);
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  if (has_events) {
    CHECK(cudaGraphExecEventRecordNodeSetEvent(executable, before, events[1]));
    if (mode == "events_gone") CHECK(cudaEventDestroy(events[0]));
  }
  int expected = 0;
  for (int i = 0; i < k_launches; ++i) {
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    expected = expected * 3 + 7 + (mode == "launches" ? 1 : 0);
  }
  CHECK(cudaDeviceSynchronize());
  int found = 0;
  CHECK(cudaMemcpy(&found, data, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == expected);
  std::printf("ok\n");
  return 0;
}
