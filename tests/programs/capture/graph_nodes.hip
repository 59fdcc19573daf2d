// A graph that is a chain of NODES small kernels with one `target` in its middle, launched three times.
#include "hip_check.hpp"

__global__ void step(unsigned* data, unsigned term) { data[threadIdx.x] = data[threadIdx.x] * 3 + term; }
__global__ void target(unsigned* data) { data[threadIdx.x] = data[threadIdx.x] * 5 + 2; }

int main(int argc, char** argv) {
  const int nodes = argc > 1 ? std::atoi(argv[1]) : 100;
  constexpr int k_count = 64, k_launches = 3;
  Tally tally("graph_nodes");
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  const DeviceArray<unsigned> data(std::vector<unsigned>(k_count, 1));
  hipGraph_t graph;
  HIP_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  for (int i = 0; i < nodes; ++i) {
    if (i == nodes / 2) target<<<1, k_count, 0, stream>>>(data.get());
    step<<<1, k_count, 0, stream>>>(data.get(), i);
  }
  HIP_OK(hipStreamEndCapture(stream, &graph));
  hipGraphExec_t executable;
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  HIP_OK(hipGraphDestroy(graph));
  unsigned wanted = 1;
  for (int launch = 0; launch < k_launches; ++launch) {
    HIP_OK(hipGraphLaunch(executable, stream));
    for (int i = 0; i < nodes; ++i) {
      if (i == nodes / 2) wanted = wanted * 5 + 2;
      wanted = wanted * 3 + static_cast<unsigned>(i);
    }
  }
  HIP_OK(hipStreamSynchronize(stream));
  tally.equal("data", data.read(), std::vector<unsigned>(k_count, wanted));
  return tally.finish();
}
