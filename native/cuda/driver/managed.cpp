// Managed memory of the program: as managed memory again, at its address, where times are wanted.
#include <algorithm>

#include "cuda/driver/cuda_driver.hpp"
#include "cuda/driver/wanted_address.hpp"

namespace kerncap::cuda {
namespace {

using core::Result;
using replay::Kind;

// The device may hang where there is more managed memory than it can hold.
constexpr std::uint64_t k_left_free = std::uint64_t{4} << 30;

}  // namespace

// Before anything else is reserved: the driver asks for room of 32 MiB more than it keeps.
void CudaDriver::allocate_managed(const replay::Plan& plan) {
  const std::vector<Reservation> blocks = managed_blocks_of(plan.regions);
  std::uint64_t bytes = 0;
  for (const Reservation& block : blocks) bytes += block.bytes;
  for (const replay::Region& region : plan.regions) bytes += region.kind == Kind::managed ? 0 : region.bytes;
  std::size_t free = 0;
  std::size_t total = 0;
  const bool has_room = driver().cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS && bytes + k_left_free <= free;
  if (!plan.timed || !has_room) return;
  for (Reservation block : blocks) {
    block.bytes = (block.bytes + m_granule - 1) / m_granule * m_granule;  // what lies behind a region is watched
    const WantedAddress wanted(block.base);
    CUdeviceptr got = 0;
    if (driver().cuMemAllocManaged(&got, block.bytes, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS) return;
    if (got == block.base) {
      m_managed.push_back(block);
    } else {
      driver().cuMemFree_v2(got);
    }
  }
}

bool CudaDriver::is_managed(const replay::Region& region) const {
  return region.kind == Kind::managed && is_within(m_managed, region.base);
}

// After the restore, which left its pages wherever they are.
Result<void> CudaDriver::settle_managed() {
  const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, {m_device}};
  const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, {0}};
  Result<void> done;
  for (const replay::Region& region : m_plan->regions) {
    if (!done || !is_managed(region)) continue;
    const bool on_host = is_on_host(region);
    if (on_host) {
      done = checked("advising", driver().cuMemAdvise_v2(region.base, region.bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
      if (done) done = checked("advising", driver().cuMemAdvise_v2(region.base, region.bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
    }
    if (done) {
      done = checked("moving managed memory", driver().cuMemPrefetchAsync_v2(region.base, region.bytes, on_host ? host : device, 0, m_stream));
    }
    if (done && (region.flags & replay::k_flag_read_mostly) != 0) {
      done = checked("advising", driver().cuMemAdvise_v2(region.base, region.bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    }
  }
  return done ? settle() : done;
}

std::vector<std::string> CudaDriver::stand_ins() const {
  std::uint64_t managed = 0;
  std::uint64_t plain = 0;
  std::uint64_t pinned = 0;
  for (const replay::Region& region : m_plan->regions) {
    if (region.kind != Kind::managed) continue;
    if (is_managed(region)) {
      managed += is_on_host(region) ? 0 : region.bytes;
    } else {
      (is_on_host(region) ? pinned : plain) += region.bytes;
    }
  }
  std::vector<std::string> notes;
  const auto add = [&notes](std::uint64_t bytes, const char* words) {
    if (bytes != 0) notes.push_back(std::to_string(bytes) + " bytes of managed memory " + words);
  };
  add(managed, "are on the device when the kernel begins: times hold no moving of pages");
  add(plain, "are plain device memory here: times hold no moving of pages");
  add(pinned, "that stay on the host are pinned host memory here");
  return notes;
}

}  // namespace kerncap::cuda
