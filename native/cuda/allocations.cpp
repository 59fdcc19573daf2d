// Book-keeping of the program's memory.
#include "cuda/allocations.hpp"

#include <algorithm>

namespace kerncap::cuda {
namespace {

using capture::bit_of;

bool is_of_another(const Allocation& allocation, std::uint32_t device) noexcept {
  const bool is_ours = (allocation.access & bit_of(device)) != 0;
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
  m_mappings.put_back(left.mapped().mappings);
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
  if (Allocation* found = entry_at(m_by_base, address)) found->is_exported = true;
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

void Allocations::unmap(std::uint64_t base, std::uint64_t bytes, std::uint64_t call) {
  const std::lock_guard lock(m_mutex);
  capture::Mappings::ByBase unmapped = m_mappings.unmap(base, bytes);
  if (!unmapped.empty()) m_leaving[call].mappings.merge(unmapped);
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
  const Allocation* found = entry_at(m_by_base, address);
  return found != nullptr && is_of_another(*found, device) ? std::optional(*found) : std::nullopt;
}

void Allocations::set_peer_access(std::uint32_t device, std::uint32_t peer) {
  const std::lock_guard lock(m_mutex);
  m_peers[device] |= bit_of(peer);
}

bool Allocations::reaches(std::uint32_t device, std::uint32_t other) const {
  const std::lock_guard lock(m_mutex);
  const auto peers = m_peers.find(device);
  if (peers != m_peers.end() && (peers->second & bit_of(other)) != 0) return true;
  return m_mappings.reaches(device, other);
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
      if ((allocation.access & bit_of(device)) != 0) all.push_back(allocation);
    }
    m_mappings.append_to(all, device);
  }
  return disjoint(all);
}

}  // namespace kerncap::cuda
