// Addresses of global, flat and scratch instructions.
#pragma once

#include "softgpu/exec/memory/scratch_access.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

// 64-bit vector addresses: one visit for each group of lanes with the same high half, nearly always a single one.
// visit(const LaneOffsets&, high half) returns Flow; anything but next ends the walk.
template <class Visit>
inline Flow for_each_address_group(WaveContext& wave, const Instruction& in, Visit&& visit) noexcept {
  const Row* address = wave.vgpr + in.src[0].index;
  const auto offset = static_cast<std::uint64_t>(std::int64_t{in.offset});
  for (std::uint64_t rest = active_lanes(wave); rest != 0;) {
    const std::uint32_t high = address[1].lane[first_lane(rest)];
    const std::uint64_t group = lanes_equal(address[1], high, rest);
    const LaneOffsets lanes{(std::uint64_t{high} << 32) + offset, &address[0], 0, group};
    if (const Flow flow = visit(lanes, high); flow != Flow::next) return flow;
    rest &= ~group;
  }
  return Flow::next;
}

// Global: a 64-bit vector address, or a scalar one and an unsigned 32-bit vector offset.
template <class Visit>
inline Flow for_each_global_group(WaveContext& wave, const Instruction& in, Visit&& visit) noexcept {
  if (in.src[2].kind == OperandKind::none) {
    return for_each_address_group(wave, in, [&](const LaneOffsets& lanes, std::uint32_t) { return visit(lanes); });
  }
  const std::uint64_t mask = active_lanes(wave);
  if (mask == 0) return Flow::next;
  const std::uint64_t base = wave.scalar64(in.src[2]) + static_cast<std::uint64_t>(std::int64_t{in.offset});
  return visit(LaneOffsets{base, wave.vgpr + in.src[0].index, 0, mask});
}

// Flat: the high half of the address selects the LDS, this wave's scratch memory, or global memory.
template <class Global, class Lds, class Scratch>
inline Flow for_each_flat_group(WaveContext& wave, const Instruction& in, Global&& global, Lds&& lds,
                                Scratch&& scratch) noexcept {
  return for_each_address_group(wave, in, [&](const LaneOffsets& lanes, std::uint32_t high) {
    const auto offset = static_cast<std::uint32_t>(in.offset);
    if (high == static_cast<std::uint32_t>(wave.shared_base >> 32)) [[unlikely]] {
      return lds(LaneOffsets{0, lanes.offset, offset, lanes.mask});
    }
    if (high == static_cast<std::uint32_t>(wave.private_base >> 32)) [[unlikely]] {
      return scratch(ScratchLanes{{own_scratch_base(wave), lanes.offset, offset, lanes.mask},
                                  wave.scratch_size_bytes_per_lane});
    }
    return global(lanes);
  });
}

// Scratch: any of a scalar and a vector offset besides the constant one; their sum is taken modulo 2^32.
[[nodiscard]] inline ScratchLanes scratch_lanes(const WaveContext& wave, const Instruction& in) noexcept {
  std::uint32_t add = static_cast<std::uint32_t>(in.offset);
  if (in.src[2].kind != OperandKind::none) add += wave.scalar32(in.src[2]);
  const bool has_vector = in.src[0].kind != OperandKind::none;
  const Row* offset = has_vector ? wave.vgpr + in.src[0].index : &k_zero_row;
  return {{own_scratch_base(wave), offset, add, active_lanes(wave)}, wave.scratch_size_bytes_per_lane};
}

// Where a load to the LDS puts its dwords: lane i at M0[15:0] + offset + i * 4. `values` is in k_lds_values.
inline constexpr unsigned k_lds_values = 14;
Flow put_in_lds(WaveContext& wave, const Instruction& in) noexcept;

}  // namespace kerncap::softgpu
