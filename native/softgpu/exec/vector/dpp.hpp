// Data-parallel primitives: the first source of a DPP instruction comes from another lane.
#pragma once

#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

// in, with each lane taken from where dpp_ctrl points; zero where it points outside, or at an inactive lane.
void permute_lanes(const WaveContext& wave, const Instruction& instruction, const Row& in, Row& out) noexcept;

// The lanes that the row and bank masks allow and, without bound control, that have a source.
[[nodiscard]] std::uint64_t dpp_write_mask(const WaveContext& wave, const Instruction& instruction) noexcept;

// Whether this target has the control value; others are refused when the instruction is bound.
[[nodiscard]] bool dpp_control_exists(Target target, unsigned control) noexcept;

}  // namespace kerncap::softgpu
