// c = a + b, launched ten times; each launch reads what the one before wrote.
#include <vector>

#include "check.cuh"

__global__ void vector_add(const float* a, float* c, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) c[i] = a[i] + c[i];
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 1 << 20;
  std::vector<float> host(count);
  for (int i = 0; i < count; ++i) host[i] = static_cast<float>(i % 1000);
  float* a = nullptr;
  float* c = nullptr;
  CHECK(cudaMalloc(&a, count * sizeof(float)));
  CHECK(cudaMalloc(&c, count * sizeof(float)));
  CHECK(cudaMemcpy(a, host.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(c, 0, count * sizeof(float)));
  for (int i = 0; i < 10; ++i) vector_add<<<(count + 255) / 256, 256>>>(a, c, count);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(host.data(), c, count * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < count; ++i) EXPECT(host[i] == 10.0f * static_cast<float>(i % 1000));
  std::printf("ok\n");
  return 0;
}
