// Book-keeping of the program's memory; see the header for what each map holds.
#include "capture/allocations.hpp"

#include <algorithm>

namespace kerncap::capture {
namespace {

constexpr std::uint64_t bit_of(std::uint32_t device) noexcept {
  return device < 64 ? std::uint64_t{1} << device : 0;
}

}  // namespace

void AllocationMap::add(const Allocation& allocation) {
  const std::lock_guard lock(m_mutex);
  m_by_base[allocation.base] = allocation;
}

bool AllocationMap::remove(std::uint64_t base) {
  const std::lock_guard lock(m_mutex);
  return m_by_base.erase(base) != 0;
}

void AllocationMap::set_access(std::uint64_t address, std::uint64_t access) {
  const std::lock_guard lock(m_mutex);
  auto next = m_by_base.upper_bound(address);
  if (next == m_by_base.begin()) return;
  Allocation& found = std::prev(next)->second;
  if (address < found.base + found.bytes) found.access = access | bit_of(found.device);
}

std::optional<Allocation> AllocationMap::find(std::uint64_t address) const {
  const std::lock_guard lock(m_mutex);
  auto next = m_by_base.upper_bound(address);
  if (next == m_by_base.begin()) return std::nullopt;
  const Allocation& found = std::prev(next)->second;
  if (address >= found.base + found.bytes) return std::nullopt;
  return found;
}

void AllocationMap::append_to(std::vector<Allocation>& out) const {
  const std::lock_guard lock(m_mutex);
  for (const auto& [base, allocation] : m_by_base) out.push_back(allocation);
}

void AllocationMap::remove_module(std::uint64_t module) {
  const std::lock_guard lock(m_mutex);
  std::erase_if(m_by_base, [module](const auto& item) {
    return item.second.kind == MemoryKind::code_object && item.second.module == module;
  });
}

void MappingMap::add_handle(std::uint64_t handle, Handle properties) {
  const std::lock_guard lock(m_mutex);
  properties.piece = ++m_pieces;
  m_handles[handle] = properties;
}

void MappingMap::release_handle(std::uint64_t handle) {
  // Mappings keep the memory, and what we know of it, alive.
  const std::lock_guard lock(m_mutex);
  m_handles.erase(handle);
}

void MappingMap::map(std::uint64_t base, std::uint64_t bytes, std::uint64_t offset, std::uint64_t handle) {
  const std::lock_guard lock(m_mutex);
  const auto known = m_handles.find(handle);
  Mapping mapping{bytes, offset, handle, known == m_handles.end() ? Handle{} : known->second};
  m_mappings[base] = mapping;
}

void MappingMap::unmap(std::uint64_t base, std::uint64_t bytes) {
  const std::lock_guard lock(m_mutex);
  auto first = m_mappings.lower_bound(base);
  auto last = first;
  while (last != m_mappings.end() && last->first + last->second.bytes <= base + bytes) ++last;
  m_mappings.erase(first, last);
}

void MappingMap::set_access(std::uint64_t base, std::uint64_t bytes, std::uint32_t device, bool readable,
                            bool writable) {
  const std::lock_guard lock(m_mutex);
  for (auto it = m_mappings.lower_bound(base); it != m_mappings.end() && it->first < base + bytes; ++it) {
    Mapping& mapping = it->second;
    mapping.readable = readable ? mapping.readable | bit_of(device) : mapping.readable & ~bit_of(device);
    mapping.writable = writable ? mapping.writable | bit_of(device) : mapping.writable & ~bit_of(device);
  }
}

void MappingMap::append_to(std::vector<Allocation>& out) const {
  const std::lock_guard lock(m_mutex);
  for (const auto& [base, mapping] : m_mappings) {
    Allocation region;
    region.base = base;
    region.bytes = mapping.bytes;
    region.kind = mapping.properties.known ? MemoryKind::vmem : MemoryKind::ipc;
    region.device = mapping.properties.device;
    region.access = mapping.readable | mapping.writable;
    region.piece = mapping.properties.piece;
    if (mapping.writable == 0) region.flags |= k_region_read_only;
    out.push_back(region);
  }
}

void PinnedMap::lock(const Allocation& pinned) {
  const std::lock_guard lock(m_mutex);
  m_by_host.emplace(pinned.host, pinned);
}

void PinnedMap::unlock(std::uint64_t host) {
  const std::lock_guard lock(m_mutex);
  const auto found = m_by_host.find(host);
  if (found != m_by_host.end()) m_by_host.erase(found);
}

void PinnedMap::append_to(std::vector<Allocation>& out) const {
  const std::lock_guard lock(m_mutex);
  for (const auto& [host, pinned] : m_by_host) out.push_back(pinned);
}

void ManagedRanges::split_at(std::uint64_t address) {
  auto next = m_ranges.upper_bound(address);
  if (next == m_ranges.begin()) return;
  auto& [begin, range] = *std::prev(next);
  if (begin == address || address >= range.end) return;
  m_ranges[address] = {range.end, range.access};
  range.end = address;
}

void ManagedRanges::set_access(std::uint64_t base, std::uint64_t bytes, std::uint64_t grant,
                               std::uint64_t deny) {
  const std::lock_guard lock(m_mutex);
  const std::uint64_t end = base + bytes;
  split_at(base);
  split_at(end);
  std::uint64_t at = base;
  for (auto it = m_ranges.lower_bound(base); at < end;) {
    if (it == m_ranges.end() || it->first >= end) {
      if (grant != 0) m_ranges[at] = {end, grant};
      break;
    }
    if (it->first > at && grant != 0) m_ranges[at] = {it->first, grant};
    it->second.access = (it->second.access & ~deny) | grant;
    at = it->second.end;
    it = it->second.access == 0 ? m_ranges.erase(it) : std::next(it);
  }
}

void ManagedRanges::append_to(std::vector<Allocation>& out) const {
  const std::lock_guard lock(m_mutex);
  for (const auto& [begin, range] : m_ranges) {
    Allocation region;
    region.base = begin;
    region.bytes = range.end - begin;
    region.kind = MemoryKind::managed;
    region.access = range.access;
    out.push_back(region);
  }
}

std::vector<Allocation> disjoint(std::vector<Allocation> allocations) {
  // Insert in order of priority; each later one keeps only the parts that are still free.
  std::map<std::uint64_t, Allocation> placed;
  for (const Allocation& allocation : allocations) {
    std::uint64_t at = allocation.base;
    const std::uint64_t end = allocation.base + allocation.bytes;
    auto next = placed.upper_bound(at);
    if (next != placed.begin()) {
      auto previous = std::prev(next);
      const std::uint64_t previous_end = previous->second.base + previous->second.bytes;
      // A wider list of devices is not lost where two pinnings of one range meet.
      if (previous_end > at) previous->second.access |= allocation.access;
      at = std::max(at, previous_end);
    }
    while (at < end) {
      const std::uint64_t stop = next == placed.end() ? end : std::min(end, next->first);
      if (stop > at) {
        Allocation part = allocation;
        part.base = at;
        part.bytes = stop - at;
        if (part.host != 0) part.host += at - allocation.base;
        placed.emplace(at, part);
      }
      if (next == placed.end() || next->first >= end) break;
      next->second.access |= allocation.access;
      at = next->second.base + next->second.bytes;
      ++next;
    }
  }
  std::vector<Allocation> result;
  result.reserve(placed.size());
  for (auto& [base, allocation] : placed) result.push_back(allocation);
  return result;
}

}  // namespace kerncap::capture
