// One vector register: a 32-bit value for each of 64 lanes (wave32 uses the first 32).
#pragma once

#include <cstdint>

namespace kerncap::softgpu {

inline constexpr unsigned k_lanes = 64;
inline constexpr std::uint64_t k_all_lanes = ~std::uint64_t{0};

struct alignas(64) Row {
  std::uint32_t lane[k_lanes];
};

}  // namespace kerncap::softgpu
