// A histogram by atomics, in place: pre-state and post-state differ, and a second run would count twice.
#include <vector>

#include "check.cuh"

__global__ void histogram(const unsigned char* data, unsigned* bins, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    atomicAdd(&bins[data[i]], 1u);
  }
}

int main() {
  const int count = 1 << 22;
  std::vector<unsigned char> host(count);
  for (int i = 0; i < count; ++i) host[i] = static_cast<unsigned char>(i * 7 >> 3);
  unsigned char* data = nullptr;
  unsigned* bins = nullptr;
  CHECK(cudaMalloc(&data, count));
  CHECK(cudaMalloc(&bins, 256 * sizeof(unsigned)));
  CHECK(cudaMemcpy(data, host.data(), count, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(bins, 0, 256 * sizeof(unsigned)));
  for (int i = 0; i < 5; ++i) histogram<<<132, 256>>>(data, bins, count);
  std::vector<unsigned> counted(256);
  CHECK(cudaMemcpy(counted.data(), bins, 256 * sizeof(unsigned), cudaMemcpyDeviceToHost));
  unsigned long total = 0;
  for (const unsigned bin : counted) total += bin;
  EXPECT(total == 5ul * count);
  std::printf("ok\n");
  return 0;
}
