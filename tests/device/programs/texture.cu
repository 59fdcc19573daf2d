// Kernels that read through a texture object: its contents lie behind a handle, so a capture has to refuse them, wherever the
// handle comes from. Handles are small numbers: a kernel that is given one of these for a count uses no texture.
#include <vector>

#include "check.cuh"

__global__ void sample(cudaTextureObject_t texture, float* out) { out[threadIdx.x] = tex1Dfetch<float>(texture, static_cast<int>(threadIdx.x)); }

__constant__ cudaTextureObject_t hidden;
__global__ void look_up(float* out) { out[threadIdx.x] += tex1Dfetch<float>(hidden, static_cast<int>(threadIdx.x)); }
__global__ void stride_on(float* out, size_t step) { out[threadIdx.x * step] += 1; }

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
  CHECK(cudaMemcpyToSymbol(hidden, &texture, sizeof texture));
  look_up<<<1, 64>>>(out);
  for (size_t step = 1; step < 4; ++step) stride_on<<<1, 16>>>(out, step);
  CHECK(cudaDeviceSynchronize());
  std::printf("ok\n");
  return 0;
}
