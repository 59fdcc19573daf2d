// Memory that belongs to no call that allocates: a resource of another interface, imported and mapped as a buffer.
#include "exported_memory.cuh"

__global__ void add_one(int* data) { data[threadIdx.x] += 1; }

int main() {
  constexpr std::size_t k_bytes = 4 << 20;
  CHECK(cudaFree(nullptr));
  // Physical memory of the driver's own stands in for that of a graphics interface.
  cudaExternalMemoryHandleDesc description{};
  description.type = cudaExternalMemoryHandleTypeOpaqueFd;
  description.handle.fd = export_memory(k_bytes).descriptor;
  description.size = k_bytes;
  cudaExternalMemory_t external;
  CHECK(cudaImportExternalMemory(&external, &description));
  cudaExternalMemoryBufferDesc part{};
  part.size = k_bytes;
  void* data = nullptr;
  CHECK(cudaExternalMemoryGetMappedBuffer(&data, external, &part));
  CHECK(cudaMemset(data, 0, k_bytes));
  add_one<<<1, 128>>>(static_cast<int*>(data));
  CHECK(cudaDeviceSynchronize());
  std::printf("ok\n");
  return 0;
}
