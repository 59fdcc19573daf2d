// Scalar comparisons and bit tests.
#include "softgpu/exec/scalar/ops.hpp"

namespace kerncap::softgpu::scalar {
namespace {

using u32 = std::uint32_t;
using i32 = std::int32_t;
using u64 = std::uint64_t;

constexpr auto k_eq = [](auto a, auto b) { return a == b; };
constexpr auto k_lg = [](auto a, auto b) { return a != b; };
constexpr auto k_gt = [](auto a, auto b) { return a > b; };
constexpr auto k_ge = [](auto a, auto b) { return a >= b; };
constexpr auto k_lt = [](auto a, auto b) { return a < b; };
constexpr auto k_le = [](auto a, auto b) { return a <= b; };
constexpr auto k_bit0 = [](auto a, u32 b) { return (a >> (b & (8 * sizeof a - 1)) & 1) == 0; };
constexpr auto k_bit1 = [](auto a, u32 b) { return (a >> (b & (8 * sizeof a - 1)) & 1) != 0; };

// SOPK: the register is named by the destination field, the other side is the 16-bit immediate.
template <typename T, auto k_operation>
Flow compare_immediate(WaveContext& wave, const Instruction& instruction) noexcept {
  const T immediate = std::is_signed_v<T> ? static_cast<T>(instruction.offset) : static_cast<T>(instruction.offset & 0xFFFF);
  wave.scc = k_operation(read<T>(wave, instruction.dst), immediate);
  return Flow::next;
}

constexpr HandlerEntry k_entries[] = {
    {"s_cmp_eq_i32", always<compare<i32, i32, k_eq>>},
    {"s_cmp_lg_i32", always<compare<i32, i32, k_lg>>},
    {"s_cmp_gt_i32", always<compare<i32, i32, k_gt>>},
    {"s_cmp_ge_i32", always<compare<i32, i32, k_ge>>},
    {"s_cmp_lt_i32", always<compare<i32, i32, k_lt>>},
    {"s_cmp_le_i32", always<compare<i32, i32, k_le>>},
    {"s_cmp_eq_u32", always<compare<u32, u32, k_eq>>},
    {"s_cmp_lg_u32", always<compare<u32, u32, k_lg>>},
    {"s_cmp_gt_u32", always<compare<u32, u32, k_gt>>},
    {"s_cmp_ge_u32", always<compare<u32, u32, k_ge>>},
    {"s_cmp_lt_u32", always<compare<u32, u32, k_lt>>},
    {"s_cmp_le_u32", always<compare<u32, u32, k_le>>},
    {"s_cmp_eq_u64", always<compare<u64, u64, k_eq>>},
    {"s_cmp_lg_u64", always<compare<u64, u64, k_lg>>},
    {"s_bitcmp0_b32", always<compare<u32, u32, k_bit0>>},
    {"s_bitcmp1_b32", always<compare<u32, u32, k_bit1>>},
    {"s_bitcmp0_b64", always<compare<u64, u32, k_bit0>>},
    {"s_bitcmp1_b64", always<compare<u64, u32, k_bit1>>},
    {"s_cmpk_eq_i32", always<compare_immediate<i32, k_eq>>},
    {"s_cmpk_lg_i32", always<compare_immediate<i32, k_lg>>},
    {"s_cmpk_gt_i32", always<compare_immediate<i32, k_gt>>},
    {"s_cmpk_ge_i32", always<compare_immediate<i32, k_ge>>},
    {"s_cmpk_lt_i32", always<compare_immediate<i32, k_lt>>},
    {"s_cmpk_le_i32", always<compare_immediate<i32, k_le>>},
    {"s_cmpk_eq_u32", always<compare_immediate<u32, k_eq>>},
    {"s_cmpk_lg_u32", always<compare_immediate<u32, k_lg>>},
    {"s_cmpk_gt_u32", always<compare_immediate<u32, k_gt>>},
    {"s_cmpk_ge_u32", always<compare_immediate<u32, k_ge>>},
    {"s_cmpk_lt_u32", always<compare_immediate<u32, k_lt>>},
    {"s_cmpk_le_u32", always<compare_immediate<u32, k_le>>},
};

}  // namespace

void register_compare(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu::scalar
