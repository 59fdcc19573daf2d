// SOPK arithmetic: a register and a sign-extended 16-bit immediate.
#include "softgpu/exec/scalar/ops.hpp"

namespace kerncap::softgpu::scalar {
namespace {

using u32 = std::uint32_t;

Flow movk(WaveContext& wave, const Instruction& instruction) noexcept {
  write(wave, instruction.dst, instruction.offset);
  return Flow::next;
}

Flow cmovk(WaveContext& wave, const Instruction& instruction) noexcept {
  return wave.scc ? movk(wave, instruction) : Flow::next;
}

Flow addk(WaveContext& wave, const Instruction& instruction) noexcept {
  const u32 a = read<u32>(wave, instruction.dst);
  const u32 b = static_cast<u32>(instruction.offset);
  write(wave, instruction.dst, WithScc<u32>{a + b, ((~(a ^ b) & (a ^ (a + b))) >> 31) != 0});
  return Flow::next;
}

Flow mulk(WaveContext& wave, const Instruction& instruction) noexcept {
  write(wave, instruction.dst, read<u32>(wave, instruction.dst) * static_cast<u32>(instruction.offset));
  return Flow::next;
}

constexpr HandlerEntry k_entries[] = {
    {"s_movk_i32", always<movk>},
    {"s_cmovk_i32", always<cmovk>},
    {"s_addk_i32", always<addk>},
    {"s_mulk_i32", always<mulk>},
};

}  // namespace

void register_immediate(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu::scalar
