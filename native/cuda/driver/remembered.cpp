// Which chunks a run changed, found by a kernel of ours that compares memory with a copy of it on the device.
#include "cuda/driver/cuda_driver.hpp"

namespace kerncap::cuda {
namespace {

using core::Result;

// Left free: the kernel may need local memory, and the driver has needs of its own.
constexpr std::size_t k_left_free = std::size_t{512} << 20;
constexpr std::uint64_t k_access_bytes = 16;   // our kernel reads so many at a time

}  // namespace

Result<std::vector<const replay::Region*>> CudaDriver::remember(const std::vector<const replay::Region*>& regions) {
  std::vector<const replay::Region*> taken;
  for (const Remembered& again : m_remembered) {
    Result<void> copied =
        checked("keeping a copy", driver().cuMemcpyAsync(again.copy, again.region->base, again.region->bytes, m_stream));
    if (!copied) return copied.error();
    taken.push_back(again.region);
  }
  if (!taken.empty()) return taken;
  std::size_t free = 0;
  std::size_t total = 0;
  if (driver().cuMemGetInfo_v2(&free, &total) != CUDA_SUCCESS) return taken;
  for (const replay::Region* region : regions) {
    const bool is_ours = in_place(region->base, region->bytes).memory == nullptr && !is_on_host(*region);
    if (!is_ours || region->base % k_access_bytes != 0 || region->bytes == 0) continue;
    CUdeviceptr copy = 0;
    if (free < k_left_free + region->bytes) continue;
    if (driver().cuMemAlloc_v2(&copy, region->bytes) != CUDA_SUCCESS) continue;
    free -= region->bytes;
    Result<void> copied = checked("keeping a copy", driver().cuMemcpyAsync(copy, region->base, region->bytes, m_stream));
    if (!copied) return copied.error();
    m_remembered.push_back({region, copy});
    taken.push_back(region);
  }
  if (Result<void> settled = settle(); !settled) return settled.error();
  return taken;
}

Result<std::vector<std::uint32_t>> CudaDriver::changed(std::uint64_t chunk_bytes) {
  const auto chunks_of = [&](const replay::Region& region) { return (region.bytes + chunk_bytes - 1) / chunk_bytes; };
  std::uint64_t chunks = 0;
  for (const Remembered& remembered : m_remembered) chunks += chunks_of(*remembered.region);
  Result<void> done = m_changed.prepare();
  if (done) done = m_changed.begin(chunks, m_stream);
  std::uint64_t first = 0;
  for (const Remembered& remembered : m_remembered) {
    const replay::Region& region = *remembered.region;
    if (done) done = m_changed.compare(remembered.copy, region.base, region.bytes, chunk_bytes, first, m_stream);
    first += chunks_of(region);
  }
  if (done) done = settle();
  if (!done) return done.error();
  return m_changed.fetch();
}

}  // namespace kerncap::cuda
