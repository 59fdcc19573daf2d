// Which dispatches a rule takes. Counting is one atomic addition, shared with the collector.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "capture/cases.hpp"
#include "capture/channel.hpp"
#include "capture/trials.hpp"

namespace kerncap::capture {

struct Shape {
  std::uint64_t grid_work_items[3];
  std::uint32_t block[3];

  [[nodiscard]] std::uint32_t blocks(int axis) const noexcept {
    const std::uint32_t size = block[axis] == 0 ? 1 : block[axis];
    return static_cast<std::uint32_t>((grid_work_items[axis] + size - 1) / size);
  }
  [[nodiscard]] messages::LaunchShape as_launched() const noexcept {
    return {{blocks(0), blocks(1), blocks(2)}, {block[0], block[1], block[2]}};
  }
  // As in Control::other_grid and other_block; what does not fit is cut at the largest that does.
  [[nodiscard]] std::uint64_t packed_blocks() const noexcept {
    const std::uint64_t y = std::min(blocks(1), 0xFFFFu);
    const std::uint64_t z = std::min(blocks(2), 0xFFFFu);
    return blocks(0) | y << 32 | z << 48;
  }
  [[nodiscard]] std::uint64_t packed_block() const noexcept {
    std::uint64_t packed = 0;
    for (int axis = 2; axis >= 0; --axis) packed = packed << 16 | std::min(block[axis], 0xFFFFu);
    return packed;
  }
};

[[nodiscard]] inline bool has_shape(const Rule& rule, const Shape& shape) noexcept {
  for (int axis = 0; axis < 3; ++axis) {
    if (rule.grid_blocks[axis] != 0 && rule.grid_blocks[axis] != shape.blocks(axis)) return false;
    if (rule.block_work_items[axis] != 0 && rule.block_work_items[axis] != shape.block[axis]) return false;
  }
  return true;
}

// The dispatch's number among those that match; an autotuner's trials have none. index: of the rule, in the counters.
[[nodiscard]] inline std::optional<std::uint64_t> count(const Rule& rule, Control& control, Cases& cases, std::size_t index,
                                                        const Shape& shape) noexcept {
  if (in_trial()) {
    if (has_shape(rule, shape)) control.trials[index].fetch_add(1, std::memory_order_relaxed);
    return std::nullopt;
  }
  if (!has_shape(rule, shape) || (rule.cases != 0 && !cases.take(rule, index, shape.as_launched()))) {
    control.other_grid[index].store(shape.packed_blocks(), std::memory_order_relaxed);
    control.other_block[index].store(shape.packed_block(), std::memory_order_relaxed);
    return std::nullopt;
  }
  return control.matched[index].fetch_add(1, std::memory_order_relaxed);
}

// The dispatch with this number did not take place: the next one has it. False where others were counted since: all keep theirs.
inline bool uncount(std::atomic<std::uint64_t>& matched, std::uint64_t number) noexcept {
  std::uint64_t latest = number + 1;
  return matched.compare_exchange_strong(latest, number, std::memory_order_relaxed);
}

[[nodiscard]] inline bool wants(const Rule& rule, std::uint64_t number) noexcept {
  return number >= rule.first && (number - rule.first) % rule.every == 0 && (number - rule.first) / rule.every < rule.count;
}

// Whether the rule has seen the last dispatch that it wants, among `matched`.
[[nodiscard]] inline bool is_over(const Rule& rule, std::uint64_t matched) noexcept {
  return matched > rule.first && (matched - 1 - rule.first) / rule.every >= rule.count - 1;
}

// The dispatch's number among those that match, when the rule wants it.
[[nodiscard]] inline std::optional<std::uint64_t> take(const Rule& rule, Control& control, Cases& cases,
                                                       std::size_t index, const Shape& shape) noexcept {
  const std::optional<std::uint64_t> number = count(rule, control, cases, index, shape);
  return number && wants(rule, *number) ? number : std::nullopt;
}

}  // namespace kerncap::capture
