// The 8-bit floats of gfx942: E4M3 and E5M2 in the "FNUZ" form, with finite values and one NaN, 0x80. No infinity, no
// negative zero.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

struct Fp8Format {
  unsigned mantissa;
  int bias;
};
inline constexpr Fp8Format k_fp8{3, 8};
inline constexpr Fp8Format k_bf8{2, 16};
inline constexpr std::uint8_t k_fp8_nan = 0x80;

template <Fp8Format k_format>
[[nodiscard]] constexpr std::array<float, 256> fp8_values() noexcept {
  std::array<float, 256> values{};
  for (unsigned code = 0; code < 256; ++code) {
    const unsigned exponent = (code & 0x7F) >> k_format.mantissa;
    const unsigned fraction = code & ((1U << k_format.mantissa) - 1);
    const unsigned significand = exponent == 0 ? fraction : fraction + (1U << k_format.mantissa);
    int power = (exponent == 0 ? 1 : static_cast<int>(exponent)) - k_format.bias - static_cast<int>(k_format.mantissa);
    auto value = static_cast<float>(significand);
    for (; power > 0; --power) value *= 2.0F;
    for (; power < 0; ++power) value *= 0.5F;
    values[code] = code >= 128 ? -value : value;
  }
  values[k_fp8_nan] = std::bit_cast<float>(0x7FC00000U);
  return values;
}
template <Fp8Format k_format>
inline constexpr std::array<float, 256> k_fp8_values = fp8_values<k_format>();

// dither: 0.5 ulp rounding to nearest even when negative, else a fraction in [0, 1) that is added before truncating.
// saturate: what does not fit becomes the largest value instead of NaN.
template <Fp8Format k_format>
[[nodiscard]] inline std::uint8_t to_fp8(float value, bool saturate, float dither = -1.0F) noexcept {
  constexpr int k_least_exponent = 1 - k_format.bias;
  constexpr auto k_mantissa = static_cast<int>(k_format.mantissa);
  constexpr std::uint32_t k_one = 1U << k_format.mantissa;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude_bits = bits & 0x7FFFFFFFU;
  if (magnitude_bits >= 0x7F800000U) return k_fp8_nan;
  int exponent = static_cast<int>(magnitude_bits >> 23) - 127;
  exponent = exponent < k_least_exponent ? k_least_exponent : exponent;
  // In units of the last place of the result: exact, a power of two apart.
  const float units = std::ldexp(std::bit_cast<float>(magnitude_bits), k_mantissa - exponent);
  const float rounded = dither < 0 ? __builtin_roundevenf(units) : std::floor(units + dither);
  const auto significand = static_cast<std::uint32_t>(rounded);
  std::uint32_t code = significand;
  if (significand >= k_one) {
    code = (static_cast<std::uint32_t>(exponent - k_least_exponent + 1) << k_format.mantissa) + (significand - k_one);
  }
  if (code > 0x7F) {
    if (!saturate) return k_fp8_nan;
    code = 0x7F;
  }
  return static_cast<std::uint8_t>(code == 0 ? 0 : code | ((bits >> 24) & 0x80));
}

}  // namespace kerncap::softgpu
