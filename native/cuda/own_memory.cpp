// cuMemFree waits for all that runs on the device, and the program's launches wait for it meanwhile: a kernel that waits for a later
// launch of the program would never end. cuMemUnmap waits for nothing (seen with driver 580), so our memory is mapped, and who frees it
// waits for his own streams. Where the driver maps none, it is cuMemAlloc's.
#include "cuda/own_memory.hpp"

#include "cuda/api.hpp"

namespace kerncap::cuda {

// The handle goes at once: what is mapped lives until it is unmapped.
CUdeviceptr OwnMemory::map(std::uint64_t bytes) noexcept {
  CUmemAllocationProp property{};
  property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access{};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdevice device = 0;
  std::size_t granularity = 0;
  if (driver().cuCtxGetDevice(&device) != CUDA_SUCCESS) return 0;
  property.location.id = device;
  access.location = property.location;
  const auto kind = CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
  if (driver().cuMemGetAllocationGranularity(&granularity, &property, kind) != CUDA_SUCCESS || granularity == 0) return 0;
  const std::uint64_t whole = (bytes + granularity - 1) / granularity * granularity;
  CUmemGenericAllocationHandle handle = 0;
  if (driver().cuMemCreate(&handle, whole, &property, 0) != CUDA_SUCCESS) return 0;
  CUdeviceptr address = 0;
  CUresult made = driver().cuMemAddressReserve(&address, whole, 0, 0, 0);
  if (made == CUDA_SUCCESS) {
    made = driver().cuMemMap(address, whole, 0, handle, 0);
    if (made == CUDA_SUCCESS) {
      made = driver().cuMemSetAccess(address, whole, &access, 1);
      if (made != CUDA_SUCCESS) driver().cuMemUnmap(address, whole);
    }
    if (made != CUDA_SUCCESS) driver().cuMemAddressFree(address, whole);
  }
  driver().cuMemRelease(handle);
  if (made != CUDA_SUCCESS) return 0;
  const std::lock_guard lock(m_mutex);
  m_mapped[address] = whole;
  return address;
}

CUdeviceptr OwnMemory::allocate(std::uint64_t bytes) noexcept {
  if (const CUdeviceptr mapped = map(bytes); mapped != 0) return mapped;
  CUdeviceptr memory = 0;
  return driver().cuMemAlloc_v2(&memory, bytes) == CUDA_SUCCESS ? memory : 0;
}

CUresult OwnMemory::free(CUdeviceptr memory) noexcept {
  std::uint64_t bytes = 0;
  {
    const std::lock_guard lock(m_mutex);
    const auto found = m_mapped.find(memory);
    if (found == m_mapped.end()) return driver().cuMemFree_v2(memory);
    bytes = found->second;
    m_mapped.erase(found);
  }
  const CUresult unmapped = driver().cuMemUnmap(memory, bytes);
  const CUresult given_back = driver().cuMemAddressFree(memory, bytes);
  return unmapped != CUDA_SUCCESS ? unmapped : given_back;
}

}  // namespace kerncap::cuda
