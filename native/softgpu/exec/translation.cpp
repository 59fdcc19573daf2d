// The slow half of a worker's translation cache.
#include "softgpu/exec/translation.hpp"

#include <algorithm>

namespace kerncap::softgpu {
namespace {

// The part of the extent that may be cached. Until the first write into a block, that is the whole of it without the right
// to write; from then on it is the block.
Extent watched(const core::WriteWatch& watch, Extent extent, std::uint64_t va, Rights wanted) noexcept {
  constexpr std::uint64_t k_block = core::WriteWatch::k_block_bytes;
  if (!allows(extent.rights, Rights::write)) return extent;
  if (!allows(wanted, Rights::write)) {
    extent.rights = without(extent.rights, Rights::write);
    return extent;
  }
  extent.begin = std::max(extent.begin, va / k_block * k_block);
  extent.end = std::min(extent.end, (va / k_block + 1) * k_block);
  watch.before_write(watch.context, extent.begin, extent.end);
  return extent;
}

}  // namespace

std::byte* Translation::host_slow(std::uint64_t va, std::uint64_t size_bytes, Rights wanted) noexcept {
  Extent extent = m_view->find(va);
  if (extent.rights == Rights::none) return nullptr;
  if (const core::WriteWatch* watch = m_space->write_watch()) [[unlikely]] extent = watched(*watch, extent, va, wanted);
  m_entries[slot(va)] = extent;
  return extent.contains(va, size_bytes) && allows(extent.rights, wanted) ? extent.host(va) : nullptr;
}

void Translation::clear() noexcept {
  for (Extent& entry : m_entries) entry = Extent{};
}

}  // namespace kerncap::softgpu
