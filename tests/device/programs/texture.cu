// A kernel that reads through a texture object: its contents lie behind a handle, so a capture has to refuse it.
#include <vector>

#include "check.cuh"

__global__ void sample(cudaTextureObject_t texture, float* out) { out[threadIdx.x] = tex1Dfetch<float>(texture, static_cast<int>(threadIdx.x)); }

int main() {
  float* data = nullptr;
  float* out = nullptr;
  CHECK(cudaMalloc(&data, 64 * sizeof(float)));
  CHECK(cudaMalloc(&out, 64 * sizeof(float)));
  CHECK(cudaMemset(data, 0, 64 * sizeof(float)));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = data;
  resource.res.linear.desc = cudaCreateChannelDesc<float>();
  resource.res.linear.sizeInBytes = 64 * sizeof(float);
  cudaTextureDesc description{};
  cudaTextureObject_t texture;
  CHECK(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
  sample<<<1, 64>>>(texture, out);
  CHECK(cudaDeviceSynchronize());
  std::printf("ok\n");
  return 0;
}
