// Which dispatches a rule takes. Counting is one atomic addition, shared with the collector.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "capture/channel.hpp"

namespace kerncap::capture {

struct Shape {
  std::uint64_t grid_work_items[3];
  std::uint32_t block[3];

  [[nodiscard]] std::uint32_t blocks(int axis) const noexcept {
    const std::uint32_t size = block[axis] == 0 ? 1 : block[axis];
    return static_cast<std::uint32_t>((grid_work_items[axis] + size - 1) / size);
  }
  // As in Control::other_grid; y and z are cut at the largest that fits.
  [[nodiscard]] std::uint64_t packed_blocks() const noexcept {
    const std::uint64_t y = std::min(blocks(1), 0xFFFFu);
    const std::uint64_t z = std::min(blocks(2), 0xFFFFu);
    return blocks(0) | y << 32 | z << 48;
  }
};

// The dispatch's number among those that match, when the rule wants it.
[[nodiscard]] inline std::optional<std::uint64_t> take(const Rule& rule, std::atomic<std::uint64_t>& matched,
                                                       std::atomic<std::uint64_t>& other_grid,
                                                       const Shape& shape) noexcept {
  for (int axis = 0; axis < 3; ++axis) {
    if (rule.grid_blocks[axis] == 0 || rule.grid_blocks[axis] == shape.blocks(axis)) continue;
    other_grid.store(shape.packed_blocks(), std::memory_order_relaxed);
    return std::nullopt;
  }
  const std::uint64_t number = matched.fetch_add(1, std::memory_order_relaxed);
  if (number < rule.first || (number - rule.first) % rule.every != 0) return std::nullopt;
  if ((number - rule.first) / rule.every >= rule.count) return std::nullopt;
  return number;
}

}  // namespace kerncap::capture
