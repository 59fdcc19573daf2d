// Memory of a pool of the program's own, given back and taken again in the order of two streams.
#include "check.cuh"

__global__ void accumulate(int* sum, const int* scratch, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) sum[i] += scratch[i] + i;
}

int main() {
  constexpr int k_count = 1000;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int* sum = nullptr;
  CHECK(cudaMallocFromPoolAsync(&sum, k_count * sizeof(int), pool, streams[0]));
  CHECK(cudaMemsetAsync(sum, 0, k_count * sizeof(int), streams[0]));
  for (int run = 0; run < 20; ++run) {
    const cudaStream_t stream = streams[run % 2];
    CHECK(cudaStreamSynchronize(streams[(run + 1) % 2]));
    int* scratch = nullptr;
    int* unused = nullptr;
    CHECK(cudaMallocFromPoolAsync(&scratch, (k_count + 100 * run) * sizeof(int), pool, stream));
    CHECK(cudaMallocAsync(&unused, (1 + run) << 16, stream));
    CHECK(cudaMemsetAsync(scratch, 0, k_count * sizeof(int), stream));
    accumulate<<<1, 128, 0, stream>>>(sum, scratch, k_count);
    CHECK(cudaFreeAsync(scratch, stream));
    CHECK(cudaFreeAsync(unused, stream));
  }
  CHECK(cudaDeviceSynchronize());
  int last = 0;
  CHECK(cudaMemcpy(&last, sum + k_count - 1, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 20 * (k_count - 1));
  CHECK(cudaMemPoolDestroy(pool));
  std::printf("ok\n");
  return 0;
}
