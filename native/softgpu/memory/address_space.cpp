// The GPU page table: a sorted array, replaced as a whole; see the header for the reader protocol.
#include "softgpu/memory/address_space.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace kerncap::softgpu {
namespace {

// Tables kept for open Views before a writer waits to be rid of them.
constexpr std::size_t k_retired_limit = 16;

[[nodiscard]] bool joins(const Extent& left, const Extent& right) noexcept {
  return left.end == right.begin && left.rights == right.rights && left.host_delta == right.host_delta;
}

void append(std::vector<Extent>& table, const Extent& extent) {
  if (extent.begin >= extent.end) return;
  if (!table.empty() && joins(table.back(), extent)) {
    table.back().end = extent.end;
  } else {
    table.push_back(extent);
  }
}

// A copy of `old` in which [extent.begin, extent.end) is `extent` alone (nothing, if it has no rights).
[[nodiscard]] std::vector<Extent> replace(const std::vector<Extent>& old, const Extent& extent) {
  std::vector<Extent> table;
  table.reserve(old.size() + 2);
  std::size_t i = 0;
  for (; i < old.size() && old[i].begin < extent.begin; ++i) {
    Extent kept = old[i];
    kept.end = std::min(kept.end, extent.begin);
    append(table, kept);
  }
  if (extent.rights != Rights::none) append(table, extent);
  if (i > 0) --i;  // the last one that began before may also reach beyond
  for (; i < old.size(); ++i) {
    Extent kept = old[i];
    kept.begin = std::max(kept.begin, extent.end);
    append(table, kept);
  }
  return table;
}

[[nodiscard]] bool overlaps(const std::vector<Extent>& table, const Extent& extent) noexcept {
  const auto after = std::partition_point(table.begin(), table.end(),
                                          [&](const Extent& e) { return e.end <= extent.begin; });
  return after != table.end() && after->begin < extent.end;
}

}  // namespace

AddressSpace::AddressSpace() : m_owner(std::make_unique<const Table>()), m_table(m_owner.get()) {}

Extent AddressSpace::View::find(std::uint64_t va) const noexcept {
  const Table& table = *m_space.m_table.load(std::memory_order_seq_cst);
  const auto after = std::partition_point(table.begin(), table.end(), [&](const Extent& e) { return e.end <= va; });
  if (after != table.end() && after->begin <= va) return *after;
  Extent hole;
  hole.begin = after == table.begin() ? 0 : std::prev(after)->end;
  hole.end = after == table.end() ? std::numeric_limits<std::uint64_t>::max() : after->begin;
  return hole;
}

void AddressSpace::map(const Extent& extent) {
  if (extent.begin >= extent.end) return;
  const std::lock_guard lock(m_writer);
  const bool takes_away = overlaps(*m_owner, extent);
  publish(std::make_unique<const Table>(replace(*m_owner, extent)), takes_away);
}

void AddressSpace::unmap(std::uint64_t begin, std::uint64_t end) {
  const Extent hole{begin, end, 0, Rights::none};
  const std::lock_guard lock(m_writer);
  if (begin >= end || !overlaps(*m_owner, hole)) return;
  publish(std::make_unique<const Table>(replace(*m_owner, hole)), true);
}

void AddressSpace::publish(std::unique_ptr<const Table> table, bool takes_away) {
  m_retired.push_back(std::exchange(m_owner, std::move(table)));
  m_table.store(m_owner.get(), std::memory_order_seq_cst);
  if (takes_away) m_generation.fetch_add(1, std::memory_order_seq_cst);
  if (takes_away || m_retired.size() > k_retired_limit) {
    wait_for_views();
    m_retired.clear();
  }
}

void AddressSpace::watch_writes(const core::WriteWatch* watch) {
  const std::lock_guard lock(m_writer);
  m_write_watch.store(watch, std::memory_order_seq_cst);
  m_generation.fetch_add(1, std::memory_order_seq_cst);
  wait_for_views();
}

unsigned AddressSpace::enter() const noexcept {
  const unsigned side = m_side.load(std::memory_order_seq_cst);
  m_readers[side].fetch_add(1, std::memory_order_seq_cst);
  return side;
}

void AddressSpace::leave(unsigned side) const noexcept {
  // The notification is a system call only when a writer sleeps.
  if (m_readers[side].fetch_sub(1, std::memory_order_seq_cst) == 1) m_readers[side].notify_all();
}

void AddressSpace::wait_for_views() {
  // Twice: a reader may have read the side before the flip and counted itself after the drain was seen.
  for (int pass = 0; pass < 2; ++pass) {
    const unsigned old_side = m_side.load(std::memory_order_seq_cst);
    m_side.store(old_side ^ 1U, std::memory_order_seq_cst);
    for (auto n = m_readers[old_side].load(); n != 0; n = m_readers[old_side].load()) {
      m_readers[old_side].wait(n, std::memory_order_seq_cst);
    }
  }
}

}  // namespace kerncap::softgpu
