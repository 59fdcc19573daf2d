// Sums 16 MiB, which the level-two cache of a large GPU holds: behind itself they are there, behind a flush they are not.
// With PERSISTING the cache is told to keep what the kernel reads, whatever comes through it later.
#include "check.cuh"

constexpr int k_blocks = 1056;
constexpr int k_threads = 256;
constexpr int k_bytes = 16 << 20;

__global__ void sum(const float4* data, float* sums, int count) {
  float mine = 0;
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += k_blocks * k_threads) {
    const float4 each = data[i];
    mine += each.x + each.y + each.z + each.w;
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = mine;
}

int main() {
  float4* data = nullptr;
  float* sums = nullptr;
  CHECK(cudaMalloc(&data, k_bytes));
  CHECK(cudaMalloc(&sums, k_blocks * k_threads * sizeof *sums));
  CHECK(cudaMemset(data, 1, k_bytes));
  CHECK(cudaMemset(sums, 0, k_blocks * k_threads * sizeof *sums));
#ifdef PERSISTING
  CHECK(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, k_bytes));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeAccessPolicyWindow;
  attribute.val.accessPolicyWindow = {data, k_bytes, 1.0f, cudaAccessPropertyPersisting, cudaAccessPropertyStreaming};
  cudaLaunchConfig_t config{};
  config.gridDim = k_blocks;
  config.blockDim = k_threads;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, sum, static_cast<const float4*>(data), sums, k_bytes / static_cast<int>(sizeof *data)));
#else
  sum<<<k_blocks, k_threads>>>(data, sums, k_bytes / static_cast<int>(sizeof *data));
#endif
  CHECK(cudaDeviceSynchronize());
  std::printf("ok\n");
  return 0;
}
