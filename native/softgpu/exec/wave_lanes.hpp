// How many lanes the waves have that the including code works on.
//
// The build compiles the folders vector/ and memory/ once for each number of lanes, with KERNCAP_LANES set to it; each
// time their code is in a namespace of its own, wave64 or wave32. So a lane loop has a constant bound, and a wave never
// meets a handler of the other size: HandlerTable::instance() picks the handlers by the target's traits.
#pragma once

#include <cstdint>

#include "softgpu/exec/wave.hpp"

#ifndef KERNCAP_LANES
#define KERNCAP_LANES 64  // tests of gfx9 targets, and editors
#endif
#define KERNCAP_JOIN_(a, b) a##b
#define KERNCAP_JOIN(a, b) KERNCAP_JOIN_(a, b)
#define KERNCAP_WAVE KERNCAP_JOIN(wave, KERNCAP_LANES)

namespace kerncap::softgpu::inline KERNCAP_WAVE {

inline constexpr unsigned k_lanes = KERNCAP_LANES;
inline constexpr std::uint64_t k_all_lanes = all_lanes_of(k_lanes);
static_assert(k_lanes <= k_max_lanes && k_lanes % 32 == 0);

// EXEC without the bits that stand for no lane.
[[nodiscard]] inline std::uint64_t active_lanes(const WaveContext& wave) noexcept { return wave.exec() & k_all_lanes; }
[[nodiscard]] inline bool all_lanes_active(const WaveContext& wave) noexcept {
  return active_lanes(wave) == k_all_lanes;
}

}  // namespace kerncap::softgpu
