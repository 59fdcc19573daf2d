// The slow half of a worker's translation cache.
#include "softgpu/exec/translation.hpp"

namespace kerncap::softgpu {

std::byte* Translation::host_slow(std::uint64_t va, std::uint64_t size_bytes, Rights wanted) noexcept {
  const Extent extent = m_view->find(va);
  if (extent.rights == Rights::none) return nullptr;
  m_entries[slot(va)] = extent;
  return extent.contains(va, size_bytes) && allows(extent.rights, wanted) ? extent.host(va) : nullptr;
}

void Translation::clear() noexcept {
  for (Extent& entry : m_entries) entry = Extent{};
}

}  // namespace kerncap::softgpu
