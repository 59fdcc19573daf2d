// A kernel that writes through a surface object: its contents lie behind a handle, so a capture has to refuse it.
#include "check.cuh"

__global__ void draw(cudaSurfaceObject_t surface) {
  surf2Dwrite(static_cast<float>(threadIdx.x), surface, static_cast<int>(threadIdx.x * sizeof(float)), 0);
}

int main() {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  CHECK(cudaMallocArray(&array, &format, 64, 1, cudaArraySurfaceLoadStore));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface;
  CHECK(cudaCreateSurfaceObject(&surface, &resource));
  draw<<<1, 64>>>(surface);
  CHECK(cudaDeviceSynchronize());
  std::printf("ok\n");
  return 0;
}
