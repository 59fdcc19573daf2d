// Registers whose number is in M0: s_movrel* for scalar ones, and the mode in which vector instructions shift theirs.
#include "softgpu/exec/scalar/ops.hpp"

namespace kerncap::softgpu::scalar {
namespace {

constexpr std::uint32_t k_index_bits = 0xFF;
constexpr std::uint32_t k_mode_bits = 0xF000;  // which operands are shifted: src0, src1, src2, dst
constexpr unsigned k_sgprs = 102;

[[nodiscard]] bool register_exists(const WaveContext& wave, std::uint64_t index, unsigned dwords) noexcept {
  return index + dwords <= k_sgprs && index + dwords <= wave.sgpr_count;
}

template <typename T>
Flow move_from_indexed(WaveContext& wave, const Instruction& instruction) noexcept {
  Operand source = instruction.src[0];
  const std::uint64_t index = std::uint64_t{source.index} + wave.m0();
  if (source.kind != OperandKind::sgpr || !register_exists(wave, index, sizeof(T) / 4)) {
    return wave.stop(instruction, FaultKind::register_out_of_range);
  }
  source.index = static_cast<std::uint16_t>(index);
  write(wave, instruction.dst, read<T>(wave, source));
  return Flow::next;
}

template <typename T>
Flow move_to_indexed(WaveContext& wave, const Instruction& instruction) noexcept {
  Operand destination = instruction.dst;
  const std::uint64_t index = std::uint64_t{destination.index} + wave.m0();
  if (!register_exists(wave, index, sizeof(T) / 4)) return wave.stop(instruction, FaultKind::register_out_of_range);
  destination.index = static_cast<std::uint16_t>(index);
  write(wave, destination, read<T>(wave, instruction.src[0]));
  return Flow::next;
}

// The interpreter looks at the mode when a wave jumps.
Flow enter_mode(WaveContext& wave, const Instruction& instruction, std::uint32_t mode) noexcept {
  wave.set_mode(mode);
  wave.pc = instruction.next_pc();
  return Flow::jump;
}

Flow index_on(WaveContext& wave, const Instruction& instruction) noexcept {
  std::uint32_t& m0 = wave.sgpr[traits(wave.target).m0_operand];
  const std::uint32_t index = wave.scalar32(instruction.src[0]) & k_index_bits;
  m0 = (m0 & ~(k_index_bits | k_mode_bits)) | index | (static_cast<std::uint32_t>(instruction.offset) & 0xF) << 12;
  return enter_mode(wave, instruction, wave.mode | k_mode_gpr_index);
}

Flow index_off(WaveContext& wave, const Instruction& instruction) noexcept {
  return enter_mode(wave, instruction, wave.mode & ~k_mode_gpr_index);
}

Flow index_value(WaveContext& wave, const Instruction& instruction) noexcept {
  std::uint32_t& m0 = wave.sgpr[traits(wave.target).m0_operand];
  m0 = (m0 & ~k_index_bits) | (wave.scalar32(instruction.src[0]) & k_index_bits);
  return Flow::next;
}

Flow index_mode(WaveContext& wave, const Instruction& instruction) noexcept {
  std::uint32_t& m0 = wave.sgpr[traits(wave.target).m0_operand];
  m0 = (m0 & ~k_mode_bits) | (static_cast<std::uint32_t>(instruction.offset) & 0xF) << 12;
  return Flow::next;
}

constexpr HandlerEntry k_entries[] = {
    {"s_movrels_b32", always<move_from_indexed<std::uint32_t>>},
    {"s_movrels_b64", always<move_from_indexed<std::uint64_t>>},
    {"s_movreld_b32", always<move_to_indexed<std::uint32_t>>},
    {"s_movreld_b64", always<move_to_indexed<std::uint64_t>>},
    {"s_set_gpr_idx_on", always<index_on>},
    {"s_set_gpr_idx_off", always<index_off>},
    {"s_set_gpr_idx_idx", always<index_value>},
    {"s_set_gpr_idx_mode", always<index_mode>},
};

}  // namespace

void register_register_index(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu::scalar
