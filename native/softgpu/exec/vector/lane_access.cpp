// Between lanes and scalars, and between register files: v_readlane and its kin, lane counts, swaps, accumulation
// registers.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

[[nodiscard]] std::uint32_t lane_of_source(WaveContext& wave, const Instruction& instruction, unsigned lane) noexcept {
  const Operand& source = instruction.src[0];
  const bool vector = source.kind == OperandKind::vgpr || source.kind == OperandKind::agpr;
  return vector ? wave.source_row(instruction, 0)->lane[lane] : wave.scalar32(source);
}

Flow read_first_lane(WaveContext& wave, const Instruction& instruction) noexcept {
  const std::uint64_t active = active_lanes(wave);
  const unsigned lane = active == 0 ? 0 : static_cast<unsigned>(std::countr_zero(active));
  wave.sgpr[instruction.dst.index] = lane_of_source(wave, instruction, lane);
  return Flow::next;
}

// EXEC has no say in these two.
Flow read_lane(WaveContext& wave, const Instruction& instruction) noexcept {
  const unsigned lane = wave.scalar32(instruction.src[1]) & (k_lanes - 1U);
  wave.sgpr[instruction.dst.index] = lane_of_source(wave, instruction, lane);
  return Flow::next;
}
Flow write_lane(WaveContext& wave, const Instruction& instruction) noexcept {
  const unsigned lane = wave.scalar32(instruction.src[1]) & (k_lanes - 1U);
  wave.destination_row(instruction.dst)->lane[lane] = wave.scalar32(instruction.src[0]);
  return Flow::next;
}

// Counts the bits of the mask that stand for lower lanes.
template <unsigned k_first_lane>
Flow count_lower_lanes(WaveContext& wave, const Instruction& instruction) noexcept {
  static constexpr Row k_lower = [] {
    Row masks{};
    for (unsigned lane = 0; lane < k_lanes; ++lane) {
      const unsigned below = lane < k_first_lane ? 0 : std::min(lane - k_first_lane, 32U);
      masks.lane[lane] = static_cast<std::uint32_t>((std::uint64_t{1} << below) - 1);
    }
    return masks;
  }();
  const Row& mask = *modified_source(wave, instruction, 0, false);
  const Row& base = *modified_source(wave, instruction, 1, false);
  Row result;
  for (unsigned i = 0; i < k_lanes; ++i) {
    result.lane[i] = base.lane[i] + static_cast<std::uint32_t>(std::popcount(mask.lane[i] & k_lower.lane[i]));
  }
  commit_modified(wave, instruction, &result, 1, false, HighHalf::clear);
  return Flow::next;
}

Flow swap(WaveContext& wave, const Instruction& instruction) noexcept {
  Row& a = *wave.destination_row(instruction.dst);
  Row& b = *wave.destination_row(instruction.src[0]);
  const Row old_a = a, old_b = b, mask = wave.exec_row();
  blend_row(a, old_b, mask);
  blend_row(b, old_a, mask);
  return Flow::next;
}

Flow move(WaveContext& wave, const Instruction& instruction) noexcept {
  const Row value = *wave.source_row(instruction, 0);
  commit_plain(wave, instruction, &value, 1);
  return Flow::next;
}

Flow do_nothing(WaveContext&, const Instruction&) noexcept { return Flow::next; }

template <Handler k_handler>
Handler plain_only(Target target, Instruction& instruction) {
  return form_is_supported(target, instruction) && is_plain(instruction) ? k_handler : nullptr;
}
// The scalar result or source leaves no room for lanes to differ.
template <Handler k_handler>
Handler scalar_lane(Target target, Instruction& instruction) {
  const OperandKind lane = instruction.src[1].kind;
  if (lane == OperandKind::vgpr || lane == OperandKind::agpr) return nullptr;
  return plain_only<k_handler>(target, instruction);
}
Handler make_write_lane(Target target, Instruction& instruction) {
  const OperandKind value = instruction.src[0].kind;
  if (value == OperandKind::vgpr || value == OperandKind::agpr) return nullptr;
  return scalar_lane<write_lane>(target, instruction);
}
Handler make_swap(Target target, Instruction& instruction) {
  return instruction.src[0].kind == OperandKind::vgpr ? plain_only<swap>(target, instruction) : nullptr;
}

}  // namespace

void register_lane_access(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_readfirstlane_b32", plain_only<read_first_lane>},
      {"v_readlane_b32", scalar_lane<read_lane>},
      {"v_writelane_b32", make_write_lane},
      {"v_mbcnt_lo_u32_b32", always<count_lower_lanes<0>>},
      {"v_mbcnt_hi_u32_b32", always<count_lower_lanes<32>>},
      {"v_swap_b32", make_swap},
      {"v_accvgpr_read_b32", plain_only<move>},
      {"v_accvgpr_write_b32", plain_only<move>},
      {"v_accvgpr_mov_b32", plain_only<move>},
      {"v_nop", always<do_nothing>},
      {"v_clrexcp", always<do_nothing>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
