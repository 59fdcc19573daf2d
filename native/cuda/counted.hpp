// What a launch was counted as, kept from its entry to its exit: its rule, from 1, above its number. 0: for no rule.
#pragma once

#include <cstdint>

#include "capture/protocol.hpp"

namespace kerncap::cuda {

inline constexpr unsigned k_counted_shift = 56;
static_assert(capture::k_max_rules < 256);

constexpr std::uint64_t counted_as(std::uint32_t rule, std::uint64_t number) noexcept {
  return (rule + std::uint64_t{1}) << k_counted_shift | number;
}

}  // namespace kerncap::cuda
