// One vector register: a 32-bit value for each lane.
#pragma once

#include <cstdint>

namespace kerncap::softgpu {

// A row has room for the widest waves; narrower ones use its first lanes. Code that walks the lanes of a wave takes
// their number from wave_lanes.hpp, or from the target's traits where it runs once for a wave.
inline constexpr unsigned k_max_lanes = 64;

struct alignas(64) Row {
  std::uint32_t lane[k_max_lanes];
};

// A lane mask in which every lane of a wave is set; `lanes` is 1 to k_max_lanes.
[[nodiscard]] constexpr std::uint64_t all_lanes_of(unsigned lanes) noexcept {
  return ~std::uint64_t{0} >> (k_max_lanes - lanes);
}

}  // namespace kerncap::softgpu
