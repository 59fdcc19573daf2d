// A kernel on a stream of a green context, which has a part of the GPU's multiprocessors.
#include "green.cuh"

__global__ void in_part(int* data, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] += i;
}

int main() {
  constexpr int k_count = 100'000;
  int* data = nullptr;
  CHECK(cudaMalloc(&data, k_count * sizeof(int)));
  CHECK(cudaMemset(data, 0, k_count * sizeof(int)));
  CHECK(cudaDeviceSynchronize());
  const CUstream stream = stream_of(make_green());
  for (int run = 0; run < 3; ++run) in_part<<<(k_count + 255) / 256, 256, 0, stream>>>(data, k_count);
  CHECK(cudaGetLastError());
  CHECK(cudaStreamSynchronize(stream));
  int last = 0;
  CHECK(cudaMemcpy(&last, data + k_count - 1, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 3 * (k_count - 1));
  std::printf("ok\n");
  return 0;
}
