// A graph that was recorded on two GPUs: a kernel on each counts in its GPU's memory, and then comes the one that is wanted.
//
//   two_gpu_graph 0|1      on which GPU that is; the graph is launched while the first is current
#include <cstdlib>

#include "check.cuh"

constexpr int k_launches = 3;

__global__ void add_one(int* data) { data[threadIdx.x] += 1; }
__global__ void target(int* data) { data[threadIdx.x] = 3 * data[threadIdx.x] + 1; }

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  const int wanted_on = std::atoi(argv[1]);
  cudaStream_t streams[2];
  cudaEvent_t events[2];
  int* counted[2];
  int* data = nullptr;
  for (const int gpu : {0, 1}) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaMalloc(&counted[gpu], 256 * sizeof(int)));
    CHECK(cudaMemset(counted[gpu], 0, 256 * sizeof(int)));
    CHECK(cudaStreamCreateWithFlags(&streams[gpu], cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&events[gpu], cudaEventDisableTiming));
    if (gpu == wanted_on) {
      CHECK(cudaMalloc(&data, 256 * sizeof(int)));
      CHECK(cudaMemset(data, 0, 256 * sizeof(int)));
    }
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaSetDevice(0));
  CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeRelaxed));
  add_one<<<1, 256, 0, streams[0]>>>(counted[0]);
  CHECK(cudaEventRecord(events[0], streams[0]));
  CHECK(cudaSetDevice(1));
  CHECK(cudaStreamWaitEvent(streams[1], events[0], 0));
  add_one<<<1, 256, 0, streams[1]>>>(counted[1]);
  if (wanted_on == 1) target<<<1, 256, 0, streams[1]>>>(data);
  CHECK(cudaEventRecord(events[1], streams[1]));
  CHECK(cudaSetDevice(0));
  CHECK(cudaStreamWaitEvent(streams[0], events[1], 0));
  if (wanted_on == 0) target<<<1, 256, 0, streams[0]>>>(data);
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamEndCapture(streams[0], &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  int expected = 0;
  for (int i = 0; i < k_launches; ++i, expected = 3 * expected + 1) {
    CHECK(cudaGraphLaunch(executable, streams[0]));
    CHECK(cudaStreamSynchronize(streams[0]));
  }
  int last = 0;
  for (const int gpu : {0, 1}) {
    CHECK(cudaMemcpy(&last, counted[gpu] + 255, sizeof last, cudaMemcpyDefault));
    EXPECT(last == k_launches);
  }
  CHECK(cudaMemcpy(&last, data + 255, sizeof last, cudaMemcpyDefault));
  EXPECT(last == expected);
  std::printf("ok\n");
  return 0;
}
