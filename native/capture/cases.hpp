// The launch shapes that a rule has taken, where it takes one dispatch of each.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>

#include "capture/messages.hpp"
#include "capture/protocol.hpp"

namespace kerncap::capture {

using messages::LaunchShape;
using messages::Rule;

// Of one process. Any thread.
class Cases {
 public:
  // Whether the rule takes a dispatch of this shape now; it takes no second one.
  [[nodiscard]] bool take(const Rule& rule, std::size_t index, const LaunchShape& shape) noexcept {
    const auto same = [&](const LaunchShape& other) {
      return other.grid_blocks == shape.grid_blocks && other.block_work_items == shape.block_work_items;
    };
    if (!rule.shapes.empty() && std::ranges::none_of(rule.shapes, same)) return false;
    const std::lock_guard lock(m_mutex);
    Taken& taken = m_taken[index];
    const auto end = taken.shapes.begin() + static_cast<std::ptrdiff_t>(taken.count);
    if (taken.count == std::min<std::size_t>(rule.count, k_max_cases) || std::any_of(taken.shapes.begin(), end, same)) return false;
    taken.shapes[taken.count++] = shape;
    return true;
  }
  // The dispatch of the shape that was taken last did not take place: a later one may be taken.
  void give_back(std::size_t index) noexcept {
    const std::lock_guard lock(m_mutex);
    if (m_taken[index].count != 0) --m_taken[index].count;
  }

 private:
  struct Taken {
    std::array<LaunchShape, k_max_cases> shapes{};
    std::size_t count = 0;
  };
  std::mutex m_mutex;
  std::array<Taken, k_max_rules> m_taken{};
};

}  // namespace kerncap::capture
