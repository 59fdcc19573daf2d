#include "softgpu/memory/host_mappings.hpp"

#include <algorithm>
#include <optional>

#include "core/process_maps.hpp"

namespace kerncap::softgpu {

std::vector<HostMapping> host_mappings(std::uint64_t begin, std::uint64_t end) {
  const std::optional<std::vector<core::ProcessMapping>> all = core::process_mappings();
  if (!all) return {{begin, end, Rights::all}};
  std::vector<HostMapping> found;
  for (const core::ProcessMapping& each : *all) {
    if (each.begin >= end || each.end <= begin) continue;
    HostMapping mapping{std::max(each.begin, begin), std::min(each.end, end), Rights::none};
    if (each.is_readable()) mapping.rights = mapping.rights | Rights::read;
    if (each.is_writable()) mapping.rights = mapping.rights | Rights::write;
    if (each.is_executable()) mapping.rights = mapping.rights | Rights::execute;
    found.push_back(mapping);
  }
  return found;
}

bool cover(const std::vector<HostMapping>& mappings, std::uint64_t begin, std::uint64_t end, Rights wanted) noexcept {
  std::uint64_t reached = begin;
  for (const HostMapping& mapping : mappings) {
    if (mapping.begin > reached || !allows(mapping.rights, wanted)) return false;
    reached = std::max(reached, mapping.end);
  }
  return reached >= end;
}

}  // namespace kerncap::softgpu
