// Branches, calls and returns. Offsets count words from the instruction after.
#include "softgpu/exec/scalar/ops.hpp"

namespace kerncap::softgpu::scalar {
namespace {

Flow jump_relative(WaveContext& wave, const Instruction& instruction) noexcept {
  wave.pc = instruction.next_pc() + static_cast<std::uint64_t>(std::int64_t{instruction.offset} * 4);
  return Flow::jump;
}

template <auto k_taken>
Flow conditional(WaveContext& wave, const Instruction& instruction) noexcept {
  return k_taken(wave) ? jump_relative(wave, instruction) : Flow::next;
}

constexpr auto k_scc0 = [](const WaveContext& wave) { return !wave.scc; };
constexpr auto k_scc1 = [](const WaveContext& wave) { return wave.scc; };
constexpr auto k_vccz = [](const WaveContext& wave) { return wave.vcc_is_zero(); };
constexpr auto k_vccnz = [](const WaveContext& wave) { return !wave.vcc_is_zero(); };
constexpr auto k_execz = [](const WaveContext& wave) { return wave.exec_is_zero(); };
constexpr auto k_execnz = [](const WaveContext& wave) { return !wave.exec_is_zero(); };
constexpr auto k_never = [](const WaveContext&) { return false; };  // no debugger is attached

Flow get_pc(WaveContext& wave, const Instruction& instruction) noexcept {
  write(wave, instruction.dst, instruction.next_pc());
  return Flow::next;
}

Flow set_pc(WaveContext& wave, const Instruction& instruction) noexcept {
  wave.pc = read<std::uint64_t>(wave, instruction.src[0]);
  return Flow::jump;
}

Flow swap_pc(WaveContext& wave, const Instruction& instruction) noexcept {
  wave.pc = read<std::uint64_t>(wave, instruction.src[0]);
  write(wave, instruction.dst, instruction.next_pc());
  return Flow::jump;
}

Flow call(WaveContext& wave, const Instruction& instruction) noexcept {
  write(wave, instruction.dst, instruction.next_pc());
  return jump_relative(wave, instruction);
}

constexpr HandlerEntry k_entries[] = {
    {"s_branch", always<jump_relative>},
    {"s_cbranch_scc0", always<conditional<k_scc0>>},
    {"s_cbranch_scc1", always<conditional<k_scc1>>},
    {"s_cbranch_vccz", always<conditional<k_vccz>>},
    {"s_cbranch_vccnz", always<conditional<k_vccnz>>},
    {"s_cbranch_execz", always<conditional<k_execz>>},
    {"s_cbranch_execnz", always<conditional<k_execnz>>},
    {"s_cbranch_cdbgsys", always<conditional<k_never>>},
    {"s_cbranch_cdbguser", always<conditional<k_never>>},
    {"s_cbranch_cdbgsys_or_user", always<conditional<k_never>>},
    {"s_cbranch_cdbgsys_and_user", always<conditional<k_never>>},
    {"s_getpc_b64", always<get_pc>},
    {"s_setpc_b64", always<set_pc>},
    {"s_swappc_b64", always<swap_pc>},
    {"s_call_b64", always<call>},
};

}  // namespace

void register_branch(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu::scalar
