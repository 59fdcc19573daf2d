// Book-keeping of the program's memory.
#include "cuda/allocations.hpp"

#include <algorithm>

namespace kerncap::cuda {
namespace {

using capture::MemoryKind;

constexpr std::uint64_t bit_of(std::uint32_t device) noexcept {
  return device < 64 ? std::uint64_t{1} << device : 0;
}

bool is_of_another(const Allocation& allocation, std::uint32_t device) noexcept {
  const bool is_ours = allocation.access == 0 || (allocation.access & bit_of(device)) != 0;
  return !is_ours && allocation.device != capture::k_no_device;
}

}  // namespace

void Allocations::add(const Allocation& allocation) {
  if (allocation.base == 0 || allocation.bytes == 0) return;
  const std::lock_guard lock(m_mutex);
  m_by_base[allocation.base] = allocation;
  // A graph's addresses may be given out again once the graph is gone.
  std::erase_if(m_graph_memory, [&allocation](const auto& item) {
    return item.first < allocation.end() && allocation.base < item.first + item.second;
  });
}

bool Allocations::remove(std::uint64_t base, std::uint64_t call) {
  const std::lock_guard lock(m_mutex);
  const auto found = m_by_base.find(base);
  if (found == m_by_base.end()) return false;
  m_leaving[call].allocations.push_back(found->second);
  m_by_base.erase(found);
  return true;
}

// Where the address has been given out again all the same, what is there now stays.
void Allocations::ended(std::uint64_t call, bool succeeded) {
  const std::lock_guard lock(m_mutex);
  auto left = m_leaving.extract(call);
  if (left.empty() || succeeded) return;
  for (const Allocation& allocation : left.mapped().allocations) {
    if (m_by_base.emplace(allocation.base, allocation).second) m_doubtful.push_back(allocation.base);
  }
  m_mappings.merge(left.mapped().mappings);
  for (const std::uint64_t base : left.mapped().closed) ++m_opened[base];
}

void Allocations::add_shared(const Allocation& allocation) {
  if (allocation.base == 0) return;
  add(allocation);
  const std::lock_guard lock(m_mutex);
  ++m_opened[allocation.base];
}

void Allocations::remove_shared(std::uint64_t base, std::uint64_t call) {
  {
    const std::lock_guard lock(m_mutex);
    const auto found = m_opened.find(base);
    if (found == m_opened.end()) return;
    m_leaving[call].closed.push_back(base);
    if (--found->second != 0) return;
    m_opened.erase(found);
  }
  remove(base, call);
}

void Allocations::exported(std::uint64_t address) {
  const std::lock_guard lock(m_mutex);
  if (const Allocation* found = at(address)) m_by_base[found->base].is_exported = true;
}

void Allocations::exported_handle(std::uint64_t handle) {
  const std::lock_guard lock(m_mutex);
  const auto found = m_handles.find(handle);
  if (found == m_handles.end() || found->second.multicast) return;
  found->second.exported = true;
  for (auto& [base, mapping] : m_mappings) {
    if (mapping.handle.piece == found->second.piece) mapping.handle.exported = true;
  }
}

void Allocations::context_destroyed(std::uint64_t context) {
  const std::lock_guard lock(m_mutex);
  for (auto& [base, allocation] : m_by_base) {
    if (allocation.context != context) continue;
    allocation.context = 0;
    m_doubtful.push_back(base);
    m_opened.erase(base);
  }
}

void Allocations::drop_what_went(const std::function<bool(std::uint64_t)>& is_there) {
  const std::lock_guard lock(m_mutex);
  for (const std::uint64_t base : m_doubtful) {
    if (m_by_base.contains(base) && !is_there(base)) m_by_base.erase(base);
  }
  m_doubtful.clear();
}

void Allocations::add_handle(std::uint64_t handle, std::uint32_t device, bool imported) {
  const std::lock_guard lock(m_mutex);
  m_handles[handle] = {device, imported, false, ++m_pieces};
}

void Allocations::add_multicast(std::uint64_t handle) {
  const std::lock_guard lock(m_mutex);
  m_handles[handle] = {capture::k_no_device, false, true, 0};
}

bool Allocations::knows_handle(std::uint64_t handle) const {
  const std::lock_guard lock(m_mutex);
  return m_handles.contains(handle);
}

void Allocations::add_handle_at(std::uint64_t handle, std::uint64_t address) {
  const std::lock_guard lock(m_mutex);
  const auto after = m_mappings.upper_bound(address);
  if (after == m_mappings.begin()) return;
  const auto& [base, mapping] = *std::prev(after);
  if (address < base + mapping.bytes) m_handles[handle] = mapping.handle;
}

void Allocations::map(std::uint64_t base, std::uint64_t bytes, std::uint64_t handle) {
  const std::lock_guard lock(m_mutex);
  const auto known = m_handles.find(handle);
  // Released handles stay in the list: a mapping may outlive its handle, and numbers are overwritten on reuse.
  const Handle properties = known == m_handles.end() ? Handle{capture::k_no_device, true, false, 0} : known->second;
  m_mappings[base] = {bytes, properties, 0, 0};
}

void Allocations::unmap(std::uint64_t base, std::uint64_t bytes, std::uint64_t call) {
  const std::lock_guard lock(m_mutex);
  const auto begin = m_mappings.lower_bound(base);
  const auto end = m_mappings.lower_bound(base + bytes);
  if (begin == end) return;
  m_leaving[call].mappings.insert(begin, end);
  m_mappings.erase(begin, end);
}

void Allocations::set_access(std::uint64_t base, std::uint64_t bytes, std::uint32_t device, bool readable,
                             bool writable) {
  const std::lock_guard lock(m_mutex);
  for (auto it = m_mappings.lower_bound(base); it != m_mappings.end() && it->first < base + bytes; ++it) {
    Mapping& mapping = it->second;
    mapping.readable = readable ? mapping.readable | bit_of(device) : mapping.readable & ~bit_of(device);
    mapping.writable = writable ? mapping.writable | bit_of(device) : mapping.writable & ~bit_of(device);
  }
}

void Allocations::add_graph_memory(std::uint64_t base, std::uint64_t bytes) {
  const std::lock_guard lock(m_mutex);
  m_graph_memory[base] = bytes;
}

bool Allocations::is_graph_memory(std::uint64_t address) const {
  const std::lock_guard lock(m_mutex);
  auto next = m_graph_memory.upper_bound(address);
  if (next == m_graph_memory.begin()) return false;
  --next;
  return address < next->first + next->second;
}

std::optional<Allocation> Allocations::peer_at(std::uint64_t address, std::uint32_t device) const {
  const std::lock_guard lock(m_mutex);
  const Allocation* found = at(address);
  return found != nullptr && is_of_another(*found, device) ? std::optional(*found) : std::nullopt;
}

const Allocation* Allocations::at(std::uint64_t address) const {
  const auto after = m_by_base.upper_bound(address);
  if (after == m_by_base.begin()) return nullptr;
  const Allocation& before = std::prev(after)->second;
  return address < before.end() ? &before : nullptr;
}

void Allocations::set_peer_access(std::uint32_t device, std::uint32_t peer) {
  const std::lock_guard lock(m_mutex);
  m_peers[device] |= bit_of(peer);
}

bool Allocations::reaches(std::uint32_t device, std::uint32_t other) const {
  const std::lock_guard lock(m_mutex);
  const auto peers = m_peers.find(device);
  if (peers != m_peers.end() && (peers->second & bit_of(other)) != 0) return true;
  return std::any_of(m_mappings.begin(), m_mappings.end(), [device, other](const auto& item) {
    return item.second.handle.device == other && (item.second.writable & bit_of(device)) != 0;
  });
}

std::map<std::uint32_t, std::uint64_t> Allocations::peer_bytes(std::uint32_t device) const {
  std::map<std::uint32_t, std::uint64_t> bytes;
  const std::lock_guard lock(m_mutex);
  const auto peers = m_peers.find(device);
  if (peers == m_peers.end()) return bytes;
  for (const auto& [base, allocation] : m_by_base) {
    if (!is_of_another(allocation, device) || (peers->second & bit_of(allocation.device)) == 0) continue;
    bytes[allocation.device] += allocation.bytes;
  }
  return bytes;
}

std::vector<Allocation> Allocations::reachable(std::uint32_t device) const {
  std::vector<Allocation> all;
  {
    const std::lock_guard lock(m_mutex);
    for (const auto& [base, allocation] : m_by_base) {
      if (allocation.access == 0 || (allocation.access & bit_of(device)) != 0) all.push_back(allocation);
    }
    for (const auto& [base, mapping] : m_mappings) {
      if ((mapping.readable & bit_of(device)) == 0 || mapping.handle.multicast) continue;
      Allocation region;
      region.base = base;
      region.bytes = mapping.bytes;
      region.kind = mapping.handle.imported ? MemoryKind::ipc : MemoryKind::vmem;
      region.device = mapping.handle.device;
      region.access = mapping.readable;
      region.piece = mapping.handle.piece;
      region.is_exported = mapping.handle.exported;
      region.flags = (mapping.writable & bit_of(device)) == 0 ? capture::k_region_read_only : 0;
      all.push_back(region);
    }
  }
  return disjoint(all);
}

std::vector<Allocation> disjoint(const std::vector<Allocation>& allocations) {
  std::map<std::uint64_t, Allocation> kept;
  for (const Allocation& wanted : allocations) {
    std::uint64_t at = wanted.base;
    auto next = kept.upper_bound(at);
    if (next != kept.begin() && std::prev(next)->second.end() > at) at = std::prev(next)->second.end();
    std::vector<Allocation> gaps;
    while (at < wanted.end()) {
      const std::uint64_t stop = next == kept.end() ? wanted.end() : std::min(wanted.end(), next->first);
      if (stop > at) {
        Allocation part = wanted;
        part.base = at;
        part.bytes = stop - at;
        gaps.push_back(part);
      }
      if (next == kept.end()) break;
      at = std::max(at, next->second.end());
      ++next;
    }
    for (const Allocation& gap : gaps) kept[gap.base] = gap;
  }
  std::vector<Allocation> out;
  out.reserve(kept.size());
  for (const auto& [base, allocation] : kept) out.push_back(allocation);
  return out;
}

}  // namespace kerncap::cuda
