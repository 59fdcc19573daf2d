// A graph captured from a stream and one made of explicit nodes, each launched several times.
#include "hip_check.hpp"

__global__ void step(int* data, int factor, int term, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] = data[i] * factor + term;
}

int main() {
  constexpr int k_count = 1000;
  Tally tally("graphs");
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  std::vector<int> host(k_count);
  const DeviceArray<int> data(std::vector<int>(k_count, 1));

  hipGraph_t captured;
  HIP_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  step<<<(k_count + 127) / 128, 128, 0, stream>>>(data.get(), 2, 1, k_count);
  step<<<(k_count + 127) / 128, 128, 0, stream>>>(data.get(), 3, 0, k_count);
  HIP_OK(hipMemcpyAsync(host.data(), data.get(), k_count * sizeof(int), hipMemcpyDeviceToHost, stream));
  HIP_OK(hipStreamEndCapture(stream, &captured));
  hipGraphExec_t executable;
  HIP_OK(hipGraphInstantiate(&executable, captured, nullptr, nullptr, 0));
  int wanted = 1;
  for (int round = 0; round < 4; ++round) {
    HIP_OK(hipGraphLaunch(executable, stream));
    HIP_OK(hipStreamSynchronize(stream));
    wanted = (wanted * 2 + 1) * 3;
    tally.equal("captured", host, std::vector<int>(k_count, wanted));
  }
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphDestroy(captured));

  hipGraph_t made;
  HIP_OK(hipGraphCreate(&made, 0));
  int* pointer = data.get();
  int count = k_count, factor = 5, term = -7;
  void* arguments[] = {&pointer, &factor, &term, &count};
  hipKernelNodeParams parameters{};
  parameters.func = reinterpret_cast<void*>(step);
  parameters.gridDim = dim3((k_count + 127) / 128);
  parameters.blockDim = dim3(128);
  parameters.kernelParams = arguments;
  hipMemsetParams clear{};
  clear.dst = pointer;
  clear.elementSize = 4;
  clear.value = 6;
  clear.width = k_count;
  clear.height = 1;
  hipGraphNode_t clear_node, step_node;
  HIP_OK(hipGraphAddMemsetNode(&clear_node, made, nullptr, 0, &clear));
  HIP_OK(hipGraphAddKernelNode(&step_node, made, &clear_node, 1, &parameters));
  HIP_OK(hipGraphInstantiate(&executable, made, nullptr, nullptr, 0));
  for (int round = 0; round < 2; ++round) HIP_OK(hipGraphLaunch(executable, stream));
  HIP_OK(hipStreamSynchronize(stream));
  tally.equal("made", data.read(), std::vector<int>(k_count, 6 * 5 - 7));
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphDestroy(made));
  HIP_OK(hipStreamDestroy(stream));
  return tally.finish();
}
