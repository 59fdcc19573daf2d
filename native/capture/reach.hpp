// Which regions a kernel can reach: those that its arguments lead to, and whatever the words in those lead to.
// Plain book-keeping over bytes that are on their way to the collector anyway; tested alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "capture/allocations.hpp"

namespace kerncap::capture {

// An address this close to a region counts as one inside: code may hold a pointer to one before the first element
// (arrays that count from 1) or to one after the last.
inline constexpr std::uint64_t k_reach_slack_bytes = 4096;

// Whether one of the arguments is an address in the region itself; they may lie at any byte, as structures may be packed.
[[nodiscard]] bool points_into(std::span<const std::byte> arguments, const Allocation& region) noexcept;

class ReachScan {
 public:
  // `regions` ascend and are disjoint; they outlive the scan.
  explicit ReachScan(const std::vector<Allocation>& regions);

  // A region that is in reach whatever the words say.
  void add_root(std::size_t index);
  // Arguments: an address at any byte.
  void look_at_arguments(std::span<const std::byte> bytes);
  // Memory: an address at any multiple of 8 bytes from the span's begin.
  void look_at_memory(std::span<const std::byte> bytes);

  // The next region that was found and not yet handed out.
  [[nodiscard]] std::optional<std::size_t> next();
  [[nodiscard]] bool reached(std::size_t index) const { return m_reached[index]; }
  // How many regions were found so far.
  [[nodiscard]] std::uint64_t found() const { return m_count; }

 private:
  void look_at(std::uint64_t word);

  const std::vector<Allocation>& m_regions;
  std::vector<bool> m_reached;
  std::deque<std::size_t> m_found;
  std::uint64_t m_count = 0;
  std::uint64_t m_lowest = ~std::uint64_t{0};   // most words are no address at all: two comparisons tell
  std::uint64_t m_highest = 0;
};

}  // namespace kerncap::capture
