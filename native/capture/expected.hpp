// Whether one of the next dispatches may be captured. kerncap_triton, which runs in the program's Python, asks before it
// launches a kernel that the user selected, and then records the call's arguments. Nothing else waits for the answer.
#pragma once

#include "capture/channel.hpp"

namespace kerncap::capture {

// A runtime may submit a launch later than Python made it: so many dispatches before a wanted one are expected, too.
inline constexpr std::uint64_t k_launches_before = 16;

[[nodiscard]] inline bool is_expected(const Rule& rule, std::uint64_t matched) noexcept {
  if (matched + k_launches_before < rule.first) return false;
  std::uint64_t next = 0;                                   // of the wanted ones, counted from rule.first
  if (matched > rule.first) next = (matched - rule.first + rule.every - 1) / rule.every;
  if (next >= rule.count) return false;
  return rule.first + next * rule.every <= matched + k_launches_before;
}

// Answers from this channel from now on; it lives until the process ends.
void answer_for(const Channel& channel) noexcept;

}  // namespace kerncap::capture

extern "C" {
int kerncap_expects_capture() noexcept;
}
