// Memory of a pool of the program's own.
#pragma once

#include "check.cuh"

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
