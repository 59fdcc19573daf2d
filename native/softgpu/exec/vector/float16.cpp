// f16 arithmetic, computed in float (see element.hpp).
#include <cmath>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/float_bits.hpp"
#include "softgpu/exec/vector/half.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

constexpr LaneOptions k_keep{HighHalf::keep};

// Rounds to f16 in between: the unfused multiply-add.
[[nodiscard]] inline float rounded_to_half(float value) noexcept { return half_to_float(float_to_half(value)); }
constexpr auto k_mad = [](Half a, Half b, Half c) -> Half { return {rounded_to_half(a.value * b.value) + c.value}; };
constexpr auto k_fma = [](Half a, Half b, Half c) -> Half { return {fused_half(a.value, b.value, c.value)}; };

constexpr auto k_fract = [](Half a) -> Half {
  constexpr float k_below_one = 0x1.ffcp-1F;  // the largest half below 1
  const float fraction = a.value - std::floor(a.value);
  return {fraction > k_below_one ? k_below_one : fraction};
};

constexpr auto k_ldexp = [](Half a, std::int16_t exponent) -> Half {
  int bounded = exponent > 60 ? 60 : exponent;
  bounded = bounded < -60 ? -60 : bounded;
  return {a.value * std::bit_cast<float>(static_cast<std::uint32_t>(bounded + 127) << 23)};
};

// A denormal half is a normal float; its exponent comes out right all by itself.
constexpr auto k_frexp_exponent = [](Half a) { return static_cast<std::int16_t>(frexp_exponent(a.value)); };

}  // namespace

void register_float16(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_add_f16", lanewise<[](Half a, Half b) -> Half { return {a.value + b.value}; }>},
      {"v_sub_f16", lanewise<[](Half a, Half b) -> Half { return {a.value - b.value}; }>},
      {"v_subrev_f16", lanewise<[](Half a, Half b) -> Half { return {b.value - a.value}; }>},
      {"v_mul_f16", lanewise<[](Half a, Half b) -> Half { return {a.value * b.value}; }>},
      {"v_mac_f16", lanewise<k_mad>},
      {"v_madmk_f16", lanewise<k_mad>},
      {"v_madak_f16", lanewise<k_mad>},
      {"v_mad_legacy_f16", lanewise<k_mad>},
      {"v_mad_f16", lanewise<k_mad, k_keep>},
      {"v_fma_legacy_f16", lanewise<k_fma>},
      {"v_fma_f16", lanewise<k_fma, k_keep>},
      {"v_fmac_f16", lanewise<k_fma>},
      {"v_trunc_f16", lanewise<[](Half a) -> Half { return {std::trunc(a.value)}; }>},
      {"v_ceil_f16", lanewise<[](Half a) -> Half { return {std::ceil(a.value)}; }>},
      {"v_floor_f16", lanewise<[](Half a) -> Half { return {std::floor(a.value)}; }>},
      {"v_rndne_f16", lanewise<[](Half a) -> Half { return {nearest_integer(a.value)}; }, LaneOptions{.ignores_float_mode = true}>},
      {"v_fract_f16", lanewise<k_fract>},
      {"v_ldexp_f16", lanewise<k_ldexp>},
      {"v_frexp_mant_f16", lanewise<[](Half a) -> Half { return {frexp_mantissa(a.value)}; }>},
      {"v_frexp_exp_i16_f16", lanewise<k_frexp_exponent, LaneOptions{.clamp_is_harmless = true}>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
