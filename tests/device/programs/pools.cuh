// Memory of a pool of the program's own, and of the host that is mapped by hand.
#pragma once

#include "driver_calls.cuh"

// On the first device, or on the host, where the device may read and write it.
inline void* from_pool(cudaMemLocationType where, std::size_t bytes) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = where;
  cudaMemPool_t pool;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  CHECK(cudaMemPoolSetAccess(pool, &access, std::size_t{1}));
  void* address = nullptr;
  CHECK(cudaMallocFromPoolAsync(&address, bytes, pool, nullptr));
  return address;
}

inline void* from_managed_pool(std::size_t bytes) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypeManaged;
  properties.location.type = cudaMemLocationTypeNone;
  cudaMemPool_t pool;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  void* address = nullptr;
  CHECK(cudaMallocFromPoolAsync(&address, bytes, pool, nullptr));
  return address;
}

// bytes: a multiple of 2 MiB.
inline void* mapped_on_host(std::size_t bytes, bool is_for_host) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, {0}};
  CUmemGenericAllocationHandle handle;
  DRIVER(cuMemCreate, &handle, bytes, &properties, 0ull);
  CUdeviceptr address;
  DRIVER(cuMemAddressReserve, &address, bytes, std::size_t{0}, CUdeviceptr{0}, 0ull);
  DRIVER(cuMemMap, address, bytes, std::size_t{0}, handle, 0ull);
  const CUmemAccessDesc access[] = {{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                                    {{CU_MEM_LOCATION_TYPE_HOST_NUMA, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
  DRIVER(cuMemSetAccess, address, bytes, access, std::size_t{is_for_host ? 2u : 1u});
  return reinterpret_cast<void*>(address);
}
