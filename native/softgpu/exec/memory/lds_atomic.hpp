// DS atomics: the plain form and the one that returns the old value (_rtn).
#pragma once

#include "softgpu/exec/memory/atomic_access.hpp"
#include "softgpu/exec/memory/families.hpp"
#include "softgpu/exec/memory/lds_address.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

// data1 is only there for operations with two operands.
template <class Op>
[[nodiscard]] inline AtomicOperands lds_operands(WaveContext& wave, const Instruction& in) noexcept {
  const Row* first = wave.source_row(in, 1);
  const Row* second = Op::k_operands == 2 ? wave.source_row(in, 2) : first;
  return {first, second, in.memory.returns ? wave.destination_row(in.dst) : nullptr};
}

template <class Op>
Flow lds_atomic(WaveContext& wave, const Instruction& in) noexcept {
  if (active_lanes(wave) == 0) return Flow::next;
  const LaneOffsets lanes = lds_lanes(wave, in, static_cast<std::uint32_t>(in.offset));
  return atomic_lds<Op>(wave, in, lanes, lds_operands<Op>(wave, in));
}

}  // namespace kerncap::softgpu
