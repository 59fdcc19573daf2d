// LDS addresses of DS instructions. GDS does not exist on these targets, so an instruction with the gds bit is refused.
#pragma once

#include "softgpu/exec/memory/access.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

// lane address + offset, modulo 2^32.
[[nodiscard]] inline LaneOffsets lds_lanes(const WaveContext& wave, const Instruction& in, std::uint32_t offset) noexcept {
  return {0, wave.vgpr + in.src[0].index, offset, active_lanes(wave)};
}

// The same for instructions that write registers before they have used the last address: a copy of the address register
// when the destination overlaps it.
[[nodiscard]] inline LaneOffsets lds_lanes_apart(WaveContext& wave, const Instruction& in, std::uint32_t offset) noexcept {
  LaneOffsets lanes = lds_lanes(wave, in, offset);
  const Operand& to = in.dst;
  const unsigned address = in.src[0].index;
  if (to.kind == OperandKind::vgpr && address >= to.index && address < unsigned{to.index} + to.dwords) {
    Row& copy = wave.worker->scratch[k_address_copy];
    copy = *lanes.offset;
    lanes.offset = &copy;
  }
  return lanes;
}

template <Handler k_handler>
Handler lds_only(Target, Instruction& in) {
  return in.memory.gds ? nullptr : k_handler;
}

}  // namespace kerncap::softgpu
