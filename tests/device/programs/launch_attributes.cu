// Launches with every attribute that a program gives a kernel of its own, and shared memory beyond what comes unasked.
#include "check.cuh"

// Waits for the kernel before it in its stream, which lets it begin early.
__global__ void dependent(int* data, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  cudaGridDependencySynchronize();
  if (i < count) data[i] = 2 * data[i] + 1;
  cudaTriggerProgrammaticLaunchCompletion();
}

__global__ void in_graph(int* data, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] = 2 * data[i] + 1;
}

__global__ void wide(int* data, int words) {
  extern __shared__ int shared[];
  for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x)) shared[i] = data[i];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x)) data[i] = shared[words - 1 - i];
}

int main() {
  constexpr int k_count = 50'000;
  constexpr int k_shared_bytes = 200 << 10;
  int* data = nullptr;
  CHECK(cudaMalloc(&data, k_count * sizeof(int) + k_shared_bytes));
  CHECK(cudaMemset(data, 0, k_count * sizeof(int) + k_shared_bytes));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -1));
  CHECK(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 1 << 20));

  cudaLaunchAttribute attributes[5] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributePriority;
  attributes[1].val.priority = -1;
  attributes[2].id = cudaLaunchAttributeMemSyncDomain;
  attributes[2].val.memSyncDomain = cudaLaunchMemSyncDomainRemote;
  attributes[3].id = cudaLaunchAttributeAccessPolicyWindow;
  attributes[3].val.accessPolicyWindow = {data, k_count * sizeof(int), 1.0f, cudaAccessPropertyPersisting,
                                          cudaAccessPropertyStreaming};
  attributes[4].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
  attributes[4].val.sharedMemCarveout = 50;
  cudaLaunchConfig_t config{};
  config.gridDim = (k_count + 255) / 256;
  config.blockDim = 256;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 5;
  for (int run = 0; run < 5; ++run) CHECK(cudaLaunchKernelEx(&config, dependent, data, k_count));
  CHECK(cudaStreamSynchronize(stream));
  int last = 0;
  CHECK(cudaMemcpy(&last, data + k_count - 1, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 31);

  // All but the first, which is of launches alone.
  config.attrs = attributes + 1;
  config.numAttrs = 4;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaLaunchKernelEx(&config, in_graph, data, k_count));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int run = 0; run < 2; ++run) CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(&last, data + k_count - 1, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 127);

  CHECK(cudaFuncSetAttribute(wide, cudaFuncAttributeMaxDynamicSharedMemorySize, k_shared_bytes));
  const int first = 77;
  CHECK(cudaMemcpy(data, &first, sizeof first, cudaMemcpyHostToDevice));
  for (int run = 0; run < 3; ++run) wide<<<1, 512, k_shared_bytes, stream>>>(data, k_shared_bytes / 4);
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(&last, data + k_shared_bytes / 4 - 1, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 77);
  std::printf("ok\n");
  return 0;
}
