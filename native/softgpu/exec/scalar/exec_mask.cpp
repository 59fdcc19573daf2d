// Operations that combine a source with EXEC and write EXEC.
#include "softgpu/exec/scalar/ops.hpp"

namespace kerncap::softgpu::scalar {
namespace {

using u64 = std::uint64_t;

// The destination gets EXEC as it was (saveexec) or as it becomes (wrexec).
template <bool k_save, auto k_operation>
Flow combine(WaveContext& wave, const Instruction& instruction) noexcept {
  const u64 source = read<u64>(wave, instruction.src[0]);
  const u64 before = wave.exec();
  const u64 after = k_operation(source, before);
  write(wave, instruction.dst, k_save ? before : after);
  wave.set_exec(after);
  wave.scc = after != 0;
  return Flow::next;
}

constexpr auto k_and = [](u64 s, u64 exec) { return s & exec; };
constexpr auto k_or = [](u64 s, u64 exec) { return s | exec; };
constexpr auto k_xor = [](u64 s, u64 exec) { return s ^ exec; };
constexpr auto k_andn2 = [](u64 s, u64 exec) { return s & ~exec; };
constexpr auto k_orn2 = [](u64 s, u64 exec) { return s | ~exec; };
constexpr auto k_nand = [](u64 s, u64 exec) { return ~(s & exec); };
constexpr auto k_nor = [](u64 s, u64 exec) { return ~(s | exec); };
constexpr auto k_xnor = [](u64 s, u64 exec) { return ~(s ^ exec); };
constexpr auto k_andn1 = [](u64 s, u64 exec) { return ~s & exec; };
constexpr auto k_orn1 = [](u64 s, u64 exec) { return ~s | exec; };

constexpr HandlerEntry k_entries[] = {
    {"s_and_saveexec_b64", always<combine<true, k_and>>},
    {"s_or_saveexec_b64", always<combine<true, k_or>>},
    {"s_xor_saveexec_b64", always<combine<true, k_xor>>},
    {"s_andn2_saveexec_b64", always<combine<true, k_andn2>>},
    {"s_orn2_saveexec_b64", always<combine<true, k_orn2>>},
    {"s_nand_saveexec_b64", always<combine<true, k_nand>>},
    {"s_nor_saveexec_b64", always<combine<true, k_nor>>},
    {"s_xnor_saveexec_b64", always<combine<true, k_xnor>>},
    {"s_andn1_saveexec_b64", always<combine<true, k_andn1>>},
    {"s_orn1_saveexec_b64", always<combine<true, k_orn1>>},
    {"s_andn1_wrexec_b64", always<combine<false, k_andn1>>},
    {"s_andn2_wrexec_b64", always<combine<false, k_andn2>>},
};

}  // namespace

void register_exec_mask(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu::scalar
