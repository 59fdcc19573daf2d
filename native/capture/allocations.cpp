// Book-keeping of the program's memory; see the header for what each map holds.
#include "capture/allocations.hpp"

#include <algorithm>

namespace kerncap::capture {
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
  if (Allocation* found = entry_at(m_by_base, address)) found->access = access | bit_of(found->device);
}

std::optional<Allocation> AllocationMap::find(std::uint64_t address) const {
  const std::lock_guard lock(m_mutex);
  const Allocation* found = entry_at(m_by_base, address);
  return found == nullptr ? std::nullopt : std::optional(*found);
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
  if (grant != 0) join_within(base, end);
}

// What one call lets devices in to is one range, as a buffer is. Pieces of it may be left of buffers that the program has
// freed: no call told of that.
void ManagedRanges::join_within(std::uint64_t base, std::uint64_t end) {
  for (auto it = m_ranges.lower_bound(base); it != m_ranges.end();) {
    const auto next = std::next(it);
    if (next == m_ranges.end() || next->first >= end) return;
    if (next->first != it->second.end || next->second.access != it->second.access) {
      it = next;
      continue;
    }
    it->second.end = next->second.end;
    m_ranges.erase(next);
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

std::vector<Allocation> disjoint(const std::vector<Allocation>& allocations) {
  // Insert in order of priority; each later one keeps only the parts that are still free.
  std::map<std::uint64_t, Allocation> placed;
  for (const Allocation& allocation : allocations) {
    std::uint64_t at = allocation.base;
    const std::uint64_t end = allocation.end();
    auto next = placed.upper_bound(at);
    if (next != placed.begin()) {
      auto previous = std::prev(next);
      const std::uint64_t previous_end = previous->second.end();
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
      at = next->second.end();
      ++next;
    }
  }
  std::vector<Allocation> result;
  result.reserve(placed.size());
  for (auto& [base, allocation] : placed) result.push_back(allocation);
  return result;
}

}  // namespace kerncap::capture
