// A cooperative launch with a barrier across the grid, and a launch with clusters that reads its neighbour's shared
// memory.
#include <cooperative_groups.h>

#include <vector>

#include "check.cuh"

namespace groups = cooperative_groups;

__global__ void grid_wide(int* data, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] += 1;
  groups::this_grid().sync();
  const int from = count - 1 - i;
  const int seen = i < count ? data[from] : 0;
  groups::this_grid().sync();
  if (i < count) data[i] = seen + 10;
}

__global__ void neighbours(int* out) {
  __shared__ int mine;
  groups::cluster_group cluster = groups::this_cluster();
  if (threadIdx.x == 0) mine = static_cast<int>(blockIdx.x);
  cluster.sync();
  const unsigned other = (cluster.block_rank() + 1) % cluster.num_blocks();
  if (threadIdx.x == 0) out[blockIdx.x] += *cluster.map_shared_rank(&mine, other);
  cluster.sync();
}

int main() {
  const int count = 64 * 128;
  int* data = nullptr;
  CHECK(cudaMalloc(&data, count * sizeof(int)));
  CHECK(cudaMemset(data, 0, count * sizeof(int)));
  int size = count;
  void* arguments[] = {&data, &size};
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(grid_wide), 64, 128, arguments, 0, nullptr));
  }
  std::vector<int> host(count);
  CHECK(cudaMemcpy(host.data(), data, count * sizeof(int), cudaMemcpyDeviceToHost));
  for (const int value : host) EXPECT(value == 22);
  cudaLaunchConfig_t config{};
  config.gridDim = 16;
  config.blockDim = 64;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {4, 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaMemset(data, 0, count * sizeof(int)));
  for (int i = 0; i < 2; ++i) CHECK(cudaLaunchKernelEx(&config, neighbours, data));
  CHECK(cudaMemcpy(host.data(), data, 16 * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < 16; ++i) EXPECT(host[i] == 2 * (i / 4 * 4 + (i + 1) % 4));
  std::printf("ok\n");
  return 0;
}
