// One kernel over every kind of memory that CUDA has: device, pitched, pool, managed, pinned and registered host,
// virtual memory mapped by hand.
#include <cuda.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "check.cuh"

struct Pointers {
  int* all[7];
};

__global__ void add_to_all(Pointers pointers, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  for (int k = 0; k < 7; ++k) pointers.all[k][i] += k + 1;
}

// The driver's own function, without linking libcuda: machines that only compile do not have it.
template <typename Function>
Function driver_call(const char* name, Function) {
  void* found = nullptr;
  CHECK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault));
  return reinterpret_cast<Function>(found);
}
#define DRIVER(name) driver_call(#name, static_cast<decltype(&name)>(nullptr))

int* mapped_by_hand(size_t bytes) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t granule = 0;
  DRIVER(cuMemGetAllocationGranularity)(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  const size_t whole = (bytes + granule - 1) / granule * granule;
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  if (DRIVER(cuMemAddressReserve)(&address, whole, 0, 0, 0) != CUDA_SUCCESS) return nullptr;
  if (DRIVER(cuMemCreate)(&handle, whole, &properties, 0) != CUDA_SUCCESS) return nullptr;
  if (DRIVER(cuMemMap)(address, whole, 0, handle, 0) != CUDA_SUCCESS) return nullptr;
  DRIVER(cuMemRelease)(handle);
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (DRIVER(cuMemSetAccess)(address, whole, &access, 1) != CUDA_SUCCESS) return nullptr;
  return reinterpret_cast<int*>(address);
}

int main() {
  const int count = 10000;
  const size_t bytes = count * sizeof(int);
  Pointers pointers{};
  CHECK(cudaMalloc(&pointers.all[0], bytes));
  size_t pitch = 0;
  CHECK(cudaMallocPitch(&pointers.all[1], &pitch, bytes, 1));
  CHECK(cudaMallocAsync(&pointers.all[2], bytes, nullptr));
  CHECK(cudaMallocManaged(&pointers.all[3], bytes));
  CHECK(cudaMallocHost(&pointers.all[4], bytes));
  void* ordinary = nullptr;
  if (posix_memalign(&ordinary, 4096, (bytes + 4095) / 4096 * 4096) != 0) return 1;
  CHECK(cudaHostRegister(ordinary, (bytes + 4095) / 4096 * 4096, cudaHostRegisterMapped));
  pointers.all[5] = static_cast<int*>(ordinary);
  pointers.all[6] = mapped_by_hand(bytes);
  EXPECT(pointers.all[6] != nullptr);
  std::vector<int> host(count);
  for (int i = 0; i < count; ++i) host[i] = i;
  for (int* one : pointers.all) CHECK(cudaMemcpy(one, host.data(), bytes, cudaMemcpyDefault));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 2; ++i) add_to_all<<<(count + 127) / 128, 128>>>(pointers, count);
  CHECK(cudaDeviceSynchronize());
  for (int k = 0; k < 7; ++k) {
    CHECK(cudaMemcpy(host.data(), pointers.all[k], bytes, cudaMemcpyDefault));
    for (int i = 0; i < count; i += 777) EXPECT(host[i] == i + 2 * (k + 1));
  }
  std::printf("ok\n");
  return 0;
}
