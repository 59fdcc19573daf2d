// Scalar moves, selections, logic and shifts.
#include "softgpu/exec/scalar/ops.hpp"

namespace kerncap::softgpu::scalar {
namespace {

using u32 = std::uint32_t;
using i32 = std::int32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;

constexpr auto k_move = [](auto a) { return a; };
constexpr auto k_not = [](auto a) { return nonzero(~a); };
constexpr auto k_and = [](auto a, auto b) { return nonzero(a & b); };
constexpr auto k_or = [](auto a, auto b) { return nonzero(a | b); };
constexpr auto k_xor = [](auto a, auto b) { return nonzero(a ^ b); };
constexpr auto k_andn2 = [](auto a, auto b) { return nonzero(a & ~b); };
constexpr auto k_orn2 = [](auto a, auto b) { return nonzero(a | ~b); };
constexpr auto k_nand = [](auto a, auto b) { return nonzero(~(a & b)); };
constexpr auto k_nor = [](auto a, auto b) { return nonzero(~(a | b)); };
constexpr auto k_xnor = [](auto a, auto b) { return nonzero(~(a ^ b)); };
// Shift counts are taken modulo the width.
constexpr auto k_shift_left = [](auto a, u32 b) { return nonzero(a << (b & (8 * sizeof a - 1))); };
constexpr auto k_shift_right = [](auto a, u32 b) { return nonzero(a >> (b & (8 * sizeof a - 1))); };

constexpr auto k_pack_ll = [](u32 a, u32 b) { return (a & 0xFFFF) | b << 16; };
constexpr auto k_pack_lh = [](u32 a, u32 b) { return (a & 0xFFFF) | (b & 0xFFFF0000); };
constexpr auto k_pack_hh = [](u32 a, u32 b) { return a >> 16 | (b & 0xFFFF0000); };

template <typename T>
Flow select(WaveContext& wave, const Instruction& instruction) noexcept {
  write(wave, instruction.dst, read<T>(wave, instruction.src[wave.scc ? 0 : 1]));
  return Flow::next;
}

template <typename T>
Flow conditional_move(WaveContext& wave, const Instruction& instruction) noexcept {
  if (wave.scc) write(wave, instruction.dst, read<T>(wave, instruction.src[0]));
  return Flow::next;
}

constexpr HandlerEntry k_entries[] = {
    {"s_mov_b32", always<unary<u32, k_move>>},
    {"s_mov_b64", always<unary<u64, k_move>>},
    {"s_cmov_b32", always<conditional_move<u32>>},
    {"s_cmov_b64", always<conditional_move<u64>>},
    {"s_cselect_b32", always<select<u32>>},
    {"s_cselect_b64", always<select<u64>>},
    {"s_not_b32", always<unary<u32, k_not>>},
    {"s_not_b64", always<unary<u64, k_not>>},
    {"s_and_b32", always<binary<u32, u32, k_and>>},
    {"s_and_b64", always<binary<u64, u64, k_and>>},
    {"s_or_b32", always<binary<u32, u32, k_or>>},
    {"s_or_b64", always<binary<u64, u64, k_or>>},
    {"s_xor_b32", always<binary<u32, u32, k_xor>>},
    {"s_xor_b64", always<binary<u64, u64, k_xor>>},
    {"s_andn2_b32", always<binary<u32, u32, k_andn2>>},
    {"s_andn2_b64", always<binary<u64, u64, k_andn2>>},
    {"s_orn2_b32", always<binary<u32, u32, k_orn2>>},
    {"s_orn2_b64", always<binary<u64, u64, k_orn2>>},
    {"s_nand_b32", always<binary<u32, u32, k_nand>>},
    {"s_nand_b64", always<binary<u64, u64, k_nand>>},
    {"s_nor_b32", always<binary<u32, u32, k_nor>>},
    {"s_nor_b64", always<binary<u64, u64, k_nor>>},
    {"s_xnor_b32", always<binary<u32, u32, k_xnor>>},
    {"s_xnor_b64", always<binary<u64, u64, k_xnor>>},
    {"s_lshl_b32", always<binary<u32, u32, k_shift_left>>},
    {"s_lshl_b64", always<binary<u64, u32, k_shift_left>>},
    {"s_lshr_b32", always<binary<u32, u32, k_shift_right>>},
    {"s_lshr_b64", always<binary<u64, u32, k_shift_right>>},
    {"s_ashr_i32", always<binary<i32, u32, k_shift_right>>},
    {"s_ashr_i64", always<binary<i64, u32, k_shift_right>>},
    {"s_pack_ll_b32_b16", always<binary<u32, u32, k_pack_ll>>},
    {"s_pack_lh_b32_b16", always<binary<u32, u32, k_pack_lh>>},
    {"s_pack_hh_b32_b16", always<binary<u32, u32, k_pack_hh>>},
};

}  // namespace

void register_logic(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu::scalar
