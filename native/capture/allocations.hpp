// What memory the program has, as far as its calls told us. No call is made here: plain book-keeping.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "capture/protocol.hpp"

namespace kerncap::capture {

[[nodiscard]] constexpr std::uint64_t bit_of(std::uint32_t device) noexcept {
  return device < 64 ? std::uint64_t{1} << device : 0;
}
inline constexpr std::uint64_t k_every_device = ~std::uint64_t{0};

// One allocation, mapping, or pinned range. The address is the device's.
struct Allocation {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::device_coarse;
  std::uint32_t device = k_no_device;   // the owner
  std::uint32_t flags = 0;                       // k_region_*
  std::uint64_t access = 0;                      // bit i: device i may touch it
  std::uint64_t host = 0;                        // host address where it differs from `base`
  std::uint64_t align = 0;                       // 0: unknown
  std::uint64_t module = 0;                      // of a loaded code object, or of a module's variable
  std::uint64_t context = 0;                     // in which it was made; 0: in none, or that is gone
  std::uint32_t piece = 0;                       // physical memory behind a mapping: two mappings may share it; 0: unknown
  bool is_exported = false;                      // to other processes

  [[nodiscard]] std::uint64_t end() const noexcept { return base + bytes; }
  [[nodiscard]] bool lies_elsewhere(std::uint32_t than) const noexcept { return device != k_no_device && device != than; }
  // With other processes, which may write there at any time.
  [[nodiscard]] bool is_shared() const noexcept { return is_exported || kind == MemoryKind::ipc; }
};

// What an address lies in, of a map by base of what has bytes; null: in nothing.
template <typename Map>
[[nodiscard]] auto* entry_at(Map& by_base, std::uint64_t address) noexcept {
  const auto after = by_base.upper_bound(address);
  if (after == by_base.begin()) return static_cast<decltype(&after->second)>(nullptr);
  auto& [base, found] = *std::prev(after);
  return address - base < found.bytes ? &found : nullptr;
}

// Memory from pools and what else has one base address: exact, as every allocation has one matching free.
class AllocationMap {
 public:
  void add(const Allocation& allocation);
  bool remove(std::uint64_t base);
  // The new list of devices; the owner never loses access.
  void set_access(std::uint64_t address, std::uint64_t access);
  [[nodiscard]] std::optional<Allocation> find(std::uint64_t address) const;
  void append_to(std::vector<Allocation>& out) const;
  void remove_module(std::uint64_t module);

 private:
  mutable std::mutex m_mutex;
  std::map<std::uint64_t, Allocation> m_by_base;
};

// Host memory that was pinned for a device: the same range may be pinned many times over.
class PinnedMap {
 public:
  void lock(const Allocation& pinned);          // keyed by host address
  void unlock(std::uint64_t host);
  void append_to(std::vector<Allocation>& out) const;

 private:
  mutable std::mutex m_mutex;
  std::multimap<std::uint64_t, Allocation> m_by_host;
};

// Ranges of ordinary host memory whose attributes let devices in (managed memory).
class ManagedRanges {
 public:
  // `grant`: devices that get access; `deny`: devices that lose it.
  void set_access(std::uint64_t base, std::uint64_t bytes, std::uint64_t grant, std::uint64_t deny);
  void append_to(std::vector<Allocation>& out) const;

 private:
  void split_at(std::uint64_t address);
  void join_within(std::uint64_t base, std::uint64_t end);

  mutable std::mutex m_mutex;
  struct Range {
    std::uint64_t end;
    std::uint64_t access;
  };
  std::map<std::uint64_t, Range> m_ranges;
};

// Ordered by address and disjoint: where two overlap, what stands earlier in the input keeps the bytes, for the devices of
// both.
[[nodiscard]] std::vector<Allocation> disjoint(const std::vector<Allocation>& allocations);

}  // namespace kerncap::capture
