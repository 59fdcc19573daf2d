// Book-keeping of mapped memory.
#include "capture/mappings.hpp"

#include <algorithm>

namespace kerncap::capture {

void Mappings::add_handle(std::uint64_t handle, PhysicalMemory memory) {
  const std::lock_guard lock(m_mutex);
  memory.piece = memory.is_multicast ? 0 : ++m_pieces;
  m_handles[handle] = memory;
}

void Mappings::add_handle_at(std::uint64_t handle, std::uint64_t address) {
  const std::lock_guard lock(m_mutex);
  if (const Mapping* found = entry_at(m_by_base, address)) m_handles[handle] = found->memory;
}

void Mappings::release_handle(std::uint64_t handle) {
  const std::lock_guard lock(m_mutex);
  m_handles.erase(handle);
}

bool Mappings::knows_handle(std::uint64_t handle) const {
  const std::lock_guard lock(m_mutex);
  return m_handles.contains(handle);
}

void Mappings::export_handle(std::uint64_t handle) {
  const std::lock_guard lock(m_mutex);
  const auto found = m_handles.find(handle);
  if (found == m_handles.end() || found->second.is_multicast) return;
  found->second.is_exported = true;
  for (auto& [base, mapping] : m_by_base) {
    if (mapping.memory.piece == found->second.piece) mapping.memory.is_exported = true;
  }
}

void Mappings::map(std::uint64_t base, std::uint64_t bytes, std::uint64_t handle) {
  const std::lock_guard lock(m_mutex);
  const auto known = m_handles.find(handle);
  m_by_base[base] = {bytes, known == m_handles.end() ? PhysicalMemory{} : known->second, 0, 0};
}

Mappings::ByBase Mappings::unmap(std::uint64_t base, std::uint64_t bytes) {
  const std::lock_guard lock(m_mutex);
  const auto begin = m_by_base.lower_bound(base);
  const auto end = m_by_base.lower_bound(base + bytes);
  ByBase unmapped(begin, end);
  m_by_base.erase(begin, end);
  return unmapped;
}

void Mappings::put_back(ByBase& unmapped) {
  const std::lock_guard lock(m_mutex);
  m_by_base.merge(unmapped);
}

bool Mappings::changes_access(std::uint64_t base, std::uint64_t bytes, std::uint32_t device, bool readable,
                              bool writable) const {
  const std::uint64_t bit = bit_of(device);
  const std::lock_guard lock(m_mutex);
  for (auto it = m_by_base.lower_bound(base); it != m_by_base.end() && it->first < base + bytes; ++it) {
    const bool reads = (it->second.readable & bit) != 0, writes = (it->second.writable & bit) != 0;
    if ((reads || writes) && (reads != readable || writes != writable)) return true;
  }
  return false;
}

void Mappings::set_access(std::uint64_t base, std::uint64_t bytes, std::uint32_t device, bool readable, bool writable) {
  const std::uint64_t bit = bit_of(device);
  const std::lock_guard lock(m_mutex);
  for (auto it = m_by_base.lower_bound(base); it != m_by_base.end() && it->first < base + bytes; ++it) {
    Mapping& mapping = it->second;
    mapping.readable = readable ? mapping.readable | bit : mapping.readable & ~bit;
    mapping.writable = writable ? mapping.writable | bit : mapping.writable & ~bit;
  }
}

bool Mappings::reaches(std::uint32_t device, std::uint32_t other) const {
  const std::lock_guard lock(m_mutex);
  return std::any_of(m_by_base.begin(), m_by_base.end(), [device, other](const auto& item) {
    return item.second.memory.device == other && (item.second.writable & bit_of(device)) != 0;
  });
}

void Mappings::append_to(std::vector<Allocation>& out, std::uint32_t device) const {
  const std::lock_guard lock(m_mutex);
  for (const auto& [base, mapping] : m_by_base) {
    Allocation region;
    region.access = mapping.readable | mapping.writable;
    if ((region.access & bit_of(device)) == 0 || mapping.memory.is_multicast) continue;
    region.base = base;
    region.bytes = mapping.bytes;
    region.kind = mapping.memory.is_foreign ? MemoryKind::ipc : MemoryKind::vmem;
    region.device = mapping.memory.device;
    region.piece = mapping.memory.piece;
    region.is_exported = mapping.memory.is_exported;
    if ((mapping.writable & bit_of(device)) == 0) region.flags |= k_region_read_only;
    out.push_back(region);
  }
}

}  // namespace kerncap::capture
