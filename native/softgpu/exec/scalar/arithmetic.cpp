// Scalar addition, multiplication, minimum and maximum. Signed results wrap, as the hardware's do.
#include "softgpu/exec/scalar/ops.hpp"

namespace kerncap::softgpu::scalar {
namespace {

using u32 = std::uint32_t;
using i32 = std::int32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;

constexpr auto k_add_u32 = [](u32 a, u32 b) { return WithScc<u32>{a + b, u64{a} + b > 0xFFFFFFFF}; };
constexpr auto k_sub_u32 = [](u32 a, u32 b) { return WithScc<u32>{a - b, b > a}; };
constexpr auto k_add_i32 = [](u32 a, u32 b) { return WithScc<u32>{a + b, ((~(a ^ b) & (a ^ (a + b))) >> 31) != 0}; };
constexpr auto k_sub_i32 = [](u32 a, u32 b) { return WithScc<u32>{a - b, (((a ^ b) & (a ^ (a - b))) >> 31) != 0}; };
constexpr auto k_min_i32 = [](i32 a, i32 b) { return WithScc<i32>{a < b ? a : b, a < b}; };
constexpr auto k_min_u32 = [](u32 a, u32 b) { return WithScc<u32>{a < b ? a : b, a < b}; };
constexpr auto k_max_i32 = [](i32 a, i32 b) { return WithScc<i32>{a >= b ? a : b, a >= b}; };
constexpr auto k_max_u32 = [](u32 a, u32 b) { return WithScc<u32>{a >= b ? a : b, a >= b}; };
constexpr auto k_mul_i32 = [](u32 a, u32 b) { return a * b; };
constexpr auto k_mul_hi_u32 = [](u32 a, u32 b) { return static_cast<u32>(u64{a} * b >> 32); };
constexpr auto k_mul_hi_i32 = [](i32 a, i32 b) { return static_cast<u32>(static_cast<u64>(i64{a} * b) >> 32); };
constexpr auto k_absdiff_i32 = [](u32 a, u32 b) {
  const u32 difference = a - b;
  return nonzero(difference >> 31 != 0 ? 0U - difference : difference);
};
constexpr auto k_abs_i32 = [](u32 a) { return nonzero(a >> 31 != 0 ? 0U - a : a); };

template <unsigned k_shift>
constexpr auto k_shift_add = [](u32 a, u32 b) {
  const u64 sum = (u64{a} << k_shift) + b;
  return WithScc<u32>{static_cast<u32>(sum), sum > 0xFFFFFFFF};
};

Flow addc_u32(WaveContext& wave, const Instruction& instruction) noexcept {
  const u64 sum = u64{read<u32>(wave, instruction.src[0])} + read<u32>(wave, instruction.src[1]) + (wave.scc ? 1 : 0);
  write(wave, instruction.dst, WithScc<u32>{static_cast<u32>(sum), sum > 0xFFFFFFFF});
  return Flow::next;
}

Flow subb_u32(WaveContext& wave, const Instruction& instruction) noexcept {
  const u32 a = read<u32>(wave, instruction.src[0]);
  const u64 b = u64{read<u32>(wave, instruction.src[1])} + (wave.scc ? 1 : 0);
  write(wave, instruction.dst, WithScc<u32>{static_cast<u32>(a - b), b > a});
  return Flow::next;
}

constexpr HandlerEntry k_entries[] = {
    {"s_add_u32", always<binary<u32, u32, k_add_u32>>},
    {"s_sub_u32", always<binary<u32, u32, k_sub_u32>>},
    {"s_add_i32", always<binary<u32, u32, k_add_i32>>},
    {"s_sub_i32", always<binary<u32, u32, k_sub_i32>>},
    {"s_addc_u32", always<addc_u32>},
    {"s_subb_u32", always<subb_u32>},
    {"s_min_i32", always<binary<i32, i32, k_min_i32>>},
    {"s_min_u32", always<binary<u32, u32, k_min_u32>>},
    {"s_max_i32", always<binary<i32, i32, k_max_i32>>},
    {"s_max_u32", always<binary<u32, u32, k_max_u32>>},
    {"s_mul_i32", always<binary<u32, u32, k_mul_i32>>},
    {"s_mul_hi_u32", always<binary<u32, u32, k_mul_hi_u32>>},
    {"s_mul_hi_i32", always<binary<i32, i32, k_mul_hi_i32>>},
    {"s_absdiff_i32", always<binary<u32, u32, k_absdiff_i32>>},
    {"s_abs_i32", always<unary<u32, k_abs_i32>>},
    {"s_lshl1_add_u32", always<binary<u32, u32, k_shift_add<1>>>},
    {"s_lshl2_add_u32", always<binary<u32, u32, k_shift_add<2>>>},
    {"s_lshl3_add_u32", always<binary<u32, u32, k_shift_add<3>>>},
    {"s_lshl4_add_u32", always<binary<u32, u32, k_shift_add<4>>>},
};

}  // namespace

void register_arithmetic(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu::scalar
