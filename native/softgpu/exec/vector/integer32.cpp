// 32-bit integer arithmetic and three-operand combinations.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using u32 = std::uint32_t;
using i32 = std::int32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;
using u16 = std::uint16_t;
using i16 = std::int16_t;

constexpr LaneOptions k_any_clamp{.clamp_is_harmless = true};

[[nodiscard]] constexpr u32 saturated_unsigned(u64 value) noexcept {
  constexpr u64 k_most = std::numeric_limits<u32>::max();
  return static_cast<u32>(value > k_most ? k_most : value);
}
[[nodiscard]] constexpr i32 saturated_signed(i64 value) noexcept {
  constexpr i64 k_most = std::numeric_limits<i32>::max(), k_least = std::numeric_limits<i32>::min();
  return static_cast<i32>(value > k_most ? k_most : (value < k_least ? k_least : value));
}

constexpr auto k_add = [](u32 a, u32 b) { return a + b; };
constexpr auto k_add_saturated = [](u32 a, u32 b) { return a + b < a ? ~0U : a + b; };
constexpr auto k_sub = [](u32 a, u32 b) { return a - b; };
constexpr auto k_sub_saturated = [](u32 a, u32 b) { return a < b ? 0U : a - b; };
constexpr auto k_subrev = [](u32 a, u32 b) { return b - a; };
constexpr auto k_subrev_saturated = [](u32 a, u32 b) { return b < a ? 0U : b - a; };
constexpr auto k_add_signed = [](i32 a, i32 b) { return saturated_signed(i64{a} + b); };
constexpr auto k_sub_signed = [](i32 a, i32 b) { return saturated_signed(i64{a} - b); };

[[nodiscard]] constexpr i32 low24(i32 value) noexcept { return static_cast<i32>(static_cast<u32>(value) << 8) >> 8; }
[[nodiscard]] constexpr u32 low24(u32 value) noexcept { return value & 0xFFFFFF; }

constexpr auto k_mul_i24 = [](i32 a, i32 b) { return static_cast<u32>(low24(a)) * static_cast<u32>(low24(b)); };
constexpr auto k_mul_i24_saturated = [](i32 a, i32 b) { return saturated_signed(i64{low24(a)} * low24(b)); };
constexpr auto k_mul_hi_i24 = [](i32 a, i32 b) { return static_cast<i32>((i64{low24(a)} * low24(b)) >> 32); };
constexpr auto k_mul_u24 = [](u32 a, u32 b) { return low24(a) * low24(b); };
constexpr auto k_mul_u24_saturated = [](u32 a, u32 b) { return saturated_unsigned(u64{low24(a)} * low24(b)); };
constexpr auto k_mul_hi_u24 = [](u32 a, u32 b) { return static_cast<u32>((u64{low24(a)} * low24(b)) >> 32); };

constexpr auto k_mad_i24 = [](i32 a, i32 b, u32 c) { return k_mul_i24(a, b) + c; };
constexpr auto k_mad_i24_saturated = [](i32 a, i32 b, i32 c) { return saturated_signed(i64{low24(a)} * low24(b) + c); };
constexpr auto k_mad_u24 = [](u32 a, u32 b, u32 c) { return k_mul_u24(a, b) + c; };
constexpr auto k_mad_u24_saturated = [](u32 a, u32 b, u32 c) { return saturated_unsigned(u64{low24(a)} * low24(b) + c); };
constexpr auto k_mad_u16 = [](u16 a, u16 b, u32 c) { return u32{a} * u32{b} + c; };
constexpr auto k_mad_u16_saturated = [](u16 a, u16 b, u32 c) { return saturated_unsigned(u64{a} * u64{b} + c); };
constexpr auto k_mad_i16 = [](i16 a, i16 b, u32 c) { return static_cast<u32>(i32{a} * i32{b}) + c; };
constexpr auto k_mad_i16_saturated = [](i16 a, i16 b, i32 c) { return saturated_signed(i64{a} * i64{b} + c); };

template <class T>
constexpr auto k_min = [](T a, T b) { return a < b ? a : b; };
template <class T>
constexpr auto k_max = [](T a, T b) { return a > b ? a : b; };
template <class T>
constexpr auto k_min3 = [](T a, T b, T c) { return k_min<T>(k_min<T>(a, b), c); };
template <class T>
constexpr auto k_max3 = [](T a, T b, T c) { return k_max<T>(k_max<T>(a, b), c); };
template <class T>
constexpr auto k_med3 = [](T a, T b, T c) { return k_max<T>(k_min<T>(a, b), k_min<T>(k_max<T>(a, b), c)); };

}  // namespace

void register_integer32(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_add_u32", saturating<k_add, k_add_saturated>},
      {"v_sub_u32", saturating<k_sub, k_sub_saturated>},
      {"v_subrev_u32", saturating<k_subrev, k_subrev_saturated>},
      {"v_add_i32", saturating<k_add, k_add_signed>},
      {"v_sub_i32", saturating<k_sub, k_sub_signed>},
      {"v_mul_i32_i24", saturating<k_mul_i24, k_mul_i24_saturated>},
      {"v_mul_hi_i32_i24", lanewise<k_mul_hi_i24, k_any_clamp>},
      {"v_mul_u32_u24", saturating<k_mul_u24, k_mul_u24_saturated>},
      {"v_mul_hi_u32_u24", lanewise<k_mul_hi_u24, k_any_clamp>},
      {"v_mad_i32_i24", saturating<k_mad_i24, k_mad_i24_saturated>},
      {"v_mad_u32_u24", saturating<k_mad_u24, k_mad_u24_saturated>},
      {"v_mad_u32_u16", saturating<k_mad_u16, k_mad_u16_saturated>},
      {"v_mad_i32_i16", saturating<k_mad_i16, k_mad_i16_saturated>},
      {"v_mul_lo_u32", lanewise<[](u32 a, u32 b) { return a * b; }>},
      {"v_mul_hi_u32", lanewise<[](u32 a, u32 b) { return static_cast<u32>((u64{a} * b) >> 32); }>},
      {"v_mul_hi_i32", lanewise<[](i32 a, i32 b) { return static_cast<i32>((i64{a} * b) >> 32); }>},
      {"v_min_i32", lanewise<k_min<i32>>},
      {"v_max_i32", lanewise<k_max<i32>>},
      {"v_min_u32", lanewise<k_min<u32>>},
      {"v_max_u32", lanewise<k_max<u32>>},
      {"v_min3_i32", lanewise<k_min3<i32>>},
      {"v_max3_i32", lanewise<k_max3<i32>>},
      {"v_med3_i32", lanewise<k_med3<i32>>},
      {"v_min3_u32", lanewise<k_min3<u32>>},
      {"v_max3_u32", lanewise<k_max3<u32>>},
      {"v_med3_u32", lanewise<k_med3<u32>>},
      {"v_lshl_add_u32", lanewise<[](u32 a, u32 b, u32 c) { return (a << (b & 31)) + c; }>},
      {"v_add_lshl_u32", lanewise<[](u32 a, u32 b, u32 c) { return (a + b) << (c & 31); }>},
      {"v_add3_u32", lanewise<[](u32 a, u32 b, u32 c) { return a + b + c; }>},
      {"v_xad_u32", lanewise<[](u32 a, u32 b, u32 c) { return (a ^ b) + c; }>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
