// The instruction loop. Everything that is not needed on each instruction is kept out of it: register indexing has a
// loop of its own, entered where s_set_gpr_idx_on made the wave jump.
#include "softgpu/exec/interpreter.hpp"

#include <algorithm>

#include "softgpu/exec/handler_table.hpp"
#include "softgpu/exec/work_group.hpp"

namespace kerncap::softgpu {
namespace {

void locate_fault(WaveContext& wave) noexcept {
  if (wave.group != nullptr) std::copy_n(wave.group->id, 3, wave.fault.group_id);
  wave.fault.wave = wave.index;
}

[[nodiscard]] bool registers_exist(const WaveContext& wave, const Instruction& instruction) noexcept {
  return instruction.vgpr_end <= wave.vgpr_count && instruction.agpr_end <= wave.agpr_count;
}

[[nodiscard]] bool indexes_registers(Format format) noexcept {
  switch (format) {
    case Format::vop1:
    case Format::vop2:
    case Format::vopc:
    case Format::vop3:
    case Format::vop3sd:
    case Format::vop3p: return true;
    default: return false;
  }
}

// One instruction with VGPR numbers shifted by M0, as s_set_gpr_idx_* asks: bits 12..15 of M0 say which operands.
[[nodiscard]] Flow execute_indexed(WaveContext& wave, const Instruction& original) noexcept {
  Instruction shifted = original;
  const unsigned index = wave.m0() & 0xFF;
  const unsigned which = (wave.m0() >> 12) & 0xF;
  const auto shift = [&](Operand& operand, unsigned bit) {
    if (operand.kind != OperandKind::vgpr || ((which >> bit) & 1) == 0) return;
    operand.index = static_cast<std::uint16_t>(operand.index + index);
    shifted.vgpr_end = std::max<std::uint16_t>(shifted.vgpr_end, static_cast<std::uint16_t>(operand.index + operand.dwords));
  };
  for (unsigned i = 0; i < 3; ++i) shift(shifted.src[i], i);
  shift(shifted.dst, 3);
  if (!registers_exist(wave, shifted)) return wave.stop(original, FaultKind::register_out_of_range);
  return shifted.handler(wave, shifted);
}

// The loop. k_counting and k_indexed are fixed outside so that the common loop tests for neither.
template <bool k_counting, bool k_indexed>
WaveRun run(WaveContext& wave, CodeCache& code, std::uint32_t budget, bool ends_at_wait, InstructionCounts* counts) noexcept {
  Translation& memory = wave.worker->memory;
  std::uint32_t executed = 0;
  const Instruction* instruction = code.find(memory, wave.pc, wave.fault);
  while (instruction != nullptr) {
    if (!registers_exist(wave, *instruction)) [[unlikely]] {
      wave.stop(*instruction, FaultKind::register_out_of_range);
      break;
    }
    code.execute(instruction);
    Flow flow;
    if constexpr (k_indexed) {
      flow = indexes_registers(instruction->opcode->format) ? execute_indexed(wave, *instruction)
                                                            : instruction->handler(wave, *instruction);
    } else {
      flow = instruction->handler(wave, *instruction);
    }
    ++executed;
    if constexpr (k_counting) ++counts->by_class[static_cast<unsigned>(instruction->opcode->instruction_class)];
    if (flow == Flow::next) [[likely]] {
      if (executed >= budget) {
        wave.pc = instruction->next_pc();
        return {WaveStop::budget, executed};
      }
      const Instruction* next = instruction->next;
      instruction = next != nullptr ? next : code.after(memory, *instruction, wave.fault);
      continue;
    }
    switch (flow) {
      case Flow::jump: {
        const bool indexed = (wave.mode & k_mode_gpr_index) != 0;
        if (executed >= budget || indexed != k_indexed) return {WaveStop::budget, executed};
        instruction = code.find(memory, wave.pc, wave.fault);
        continue;
      }
      case Flow::wait: {
        if (ends_at_wait || executed >= budget) {
          wave.pc = instruction->next_pc();
          return {ends_at_wait ? WaveStop::wait : WaveStop::budget, executed};
        }
        const Instruction* next = instruction->next;
        instruction = next != nullptr ? next : code.after(memory, *instruction, wave.fault);
        continue;
      }
      case Flow::yield: wave.pc = instruction->next_pc(); return {WaveStop::yield, executed};
      case Flow::retry: wave.pc = instruction->pc; return {WaveStop::yield, executed};
      case Flow::barrier: wave.pc = instruction->next_pc(); return {WaveStop::barrier, executed};
      case Flow::end: return {WaveStop::end, executed};
      default: break;
    }
    break;
  }
  locate_fault(wave);
  return {WaveStop::fault, executed};
}

}  // namespace

WaveRun run_wave(WaveContext& wave, CodeCache& code, std::uint32_t budget, bool ends_at_wait,
                 InstructionCounts* counts) noexcept {
  const bool indexed = (wave.mode & k_mode_gpr_index) != 0;
  if (counts != nullptr) {
    return indexed ? run<true, true>(wave, code, budget, ends_at_wait, counts)
                   : run<true, false>(wave, code, budget, ends_at_wait, counts);
  }
  return indexed ? run<false, true>(wave, code, budget, ends_at_wait, counts)
                 : run<false, false>(wave, code, budget, ends_at_wait, counts);
}

}  // namespace kerncap::softgpu
