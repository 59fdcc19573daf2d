// 16-bit integer arithmetic, one value in the low (or, by op_sel, high) half of a register.
#include <cstdint>
#include <limits>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using u16 = std::uint16_t;
using i16 = std::int16_t;

constexpr LaneOptions k_keep{HighHalf::keep};

template <class T>
[[nodiscard]] constexpr T saturated(std::int64_t value) noexcept {
  constexpr std::int64_t k_most = std::numeric_limits<T>::max(), k_least = std::numeric_limits<T>::min();
  return static_cast<T>(value > k_most ? k_most : (value < k_least ? k_least : value));
}

template <class T>
constexpr auto k_add = [](T a, T b) { return static_cast<T>(a + b); };
template <class T>
constexpr auto k_add_saturated = [](T a, T b) { return saturated<T>(a + b); };
template <class T>
constexpr auto k_sub = [](T a, T b) { return static_cast<T>(a - b); };
template <class T>
constexpr auto k_sub_saturated = [](T a, T b) { return saturated<T>(a - b); };
constexpr auto k_subrev = [](u16 a, u16 b) { return static_cast<u16>(b - a); };
constexpr auto k_subrev_saturated = [](u16 a, u16 b) { return saturated<u16>(b - a); };
// Widened first: u16 would be promoted to int and could overflow.
constexpr auto k_mul = [](u16 a, u16 b) { return static_cast<u16>(std::uint32_t{a} * b); };
constexpr auto k_mul_saturated = [](u16 a, u16 b) { return saturated<u16>(std::int64_t{a} * b); };
constexpr auto k_mad = [](u16 a, u16 b, u16 c) { return static_cast<u16>(std::uint32_t{a} * b + c); };
template <class T>
constexpr auto k_mad_saturated = [](T a, T b, T c) { return saturated<T>(std::int64_t{a} * b + c); };

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

void register_integer16(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_add_u16", saturating<k_add<u16>, k_add_saturated<u16>>},
      {"v_sub_u16", saturating<k_sub<u16>, k_sub_saturated<u16>>},
      {"v_subrev_u16", saturating<k_subrev, k_subrev_saturated>},
      {"v_add_i16", saturating<k_add<i16>, k_add_saturated<i16>, k_keep>},
      {"v_sub_i16", saturating<k_sub<i16>, k_sub_saturated<i16>, k_keep>},
      {"v_mul_lo_u16", saturating<k_mul, k_mul_saturated>},
      {"v_mad_legacy_u16", saturating<k_mad, k_mad_saturated<u16>>},
      {"v_mad_legacy_i16", saturating<k_mad, k_mad_saturated<i16>>},
      {"v_mad_u16", saturating<k_mad, k_mad_saturated<u16>, k_keep>},
      {"v_mad_i16", saturating<k_mad, k_mad_saturated<i16>, k_keep>},
      {"v_lshlrev_b16", lanewise<[](u16 a, u16 b) { return static_cast<u16>(b << (a & 15)); }>},
      {"v_lshrrev_b16", lanewise<[](u16 a, u16 b) { return static_cast<u16>(b >> (a & 15)); }>},
      {"v_ashrrev_i16", lanewise<[](u16 a, i16 b) { return static_cast<i16>(b >> (a & 15)); }>},
      {"v_min_u16", lanewise<k_min<u16>>},
      {"v_max_u16", lanewise<k_max<u16>>},
      {"v_min_i16", lanewise<k_min<i16>>},
      {"v_max_i16", lanewise<k_max<i16>>},
      {"v_min3_u16", lanewise<k_min3<u16>, k_keep>},
      {"v_max3_u16", lanewise<k_max3<u16>, k_keep>},
      {"v_med3_u16", lanewise<k_med3<u16>, k_keep>},
      {"v_min3_i16", lanewise<k_min3<i16>, k_keep>},
      {"v_max3_i16", lanewise<k_max3<i16>, k_keep>},
      {"v_med3_i16", lanewise<k_med3<i16>, k_keep>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
