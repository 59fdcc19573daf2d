// The division helpers, in the roles that the compiler's sequence gives them:
//
//   d = v_div_scale(den, den, num)   n, vcc = v_div_scale(num, den, num)    brings both into a range where
//   r = v_rcp(d), refined            q = n * r, refined by fused steps      nothing over- or underflows
//   v_div_fmas(error, r, q)          the last step; undoes the scale where vcc is set, rounding once
//   v_div_fixup(q, den, num)         signs, zeros, infinities, NaN, overflow
//
// The published description leaves the conditions vague; these make the sequence round correctly for all operands.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "softgpu/exec/vector/float_bits.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

template <class T>
struct DivisionLimits;
template <>
struct DivisionLimits<float> {
  static constexpr int k_scale = 64;             // the power of two to scale by
  static constexpr int k_huge_quotient = 96;     // from this exponent on, the denominator is scaled up
  static constexpr int k_tiny_numerator = -104;  // up to here, the residual would lose bits
};
template <>
struct DivisionLimits<double> {
  static constexpr int k_scale = 128;
  static constexpr int k_huge_quotient = 768;
  static constexpr int k_tiny_numerator = -970;
};

// floor(log2 |value|), denormals included; only for finite values other than zero.
template <class T>
[[nodiscard]] inline int exponent_of(T value) noexcept {
  return frexp_exponent(value) - 1;
}

template <class T>
struct Scaled {
  T value;
  bool rescale;  // v_div_fmas has to undo it
};

// `value` is one of the other two.
template <class T>
[[nodiscard]] inline Scaled<T> div_scale(T value, T denominator, T numerator) noexcept {
  using L = DivisionLimits<T>;
  constexpr int k_denormal_reciprocal = FloatBits<T>::k_bias - 1;  // 2^-this is the least normal number
  const T up = std::ldexp(T{1}, L::k_scale), down = std::ldexp(T{1}, -L::k_scale);
  if (numerator == 0 || denominator == 0) return {std::numeric_limits<T>::quiet_NaN(), false};
  if (!std::isfinite(numerator) || !std::isfinite(denominator)) return {value, false};
  const int exponent_d = exponent_of(denominator), exponent_n = exponent_of(numerator);
  const int quotient = exponent_n - exponent_d;
  const bool is_denominator = value == denominator;
  const bool tiny_quotient = quotient <= 1 - k_denormal_reciprocal;
  if (quotient >= L::k_huge_quotient) return {is_denominator ? value * up : value, true};
  if (exponent_d < -k_denormal_reciprocal) return {value * up, false};
  if (exponent_d >= k_denormal_reciprocal) {
    if (tiny_quotient) return {is_denominator ? value * down : value, true};
    return {value * down, false};
  }
  if (tiny_quotient) return {value == numerator ? value * up : value, true};
  if (exponent_n <= L::k_tiny_numerator) return {value * up, false};
  return {value, false};
}

// Whether div_scale() leaves both alone: everything is in the middle of the range. Errs on the safe side.
template <class T>
[[nodiscard]] inline bool needs_no_scale(T denominator, T numerator) noexcept {
  using F = FloatBits<T>;
  using L = DivisionLimits<T>;
  const auto biased = [](T value) {
    return static_cast<std::int32_t>((bits_of(value) & F::k_exponent) >> F::k_mantissa);
  };
  const std::int32_t d = biased(denominator), n = biased(numerator);
  const bool in_range = d > 0 && d < 2 * F::k_bias - 2 && n > L::k_tiny_numerator + F::k_bias + 1 && n <= 2 * F::k_bias;
  return in_range && n - d < L::k_huge_quotient && n - d > 3 - F::k_bias;
}

// a * b + c, times 2^64 when the quotient c is at least 2, else times 2^-64, rounded once.
[[nodiscard]] inline float div_fmas_rescaled(float a, float b, float c) noexcept {
  const double product = static_cast<double>(a) * static_cast<double>(b);  // exact
  const double sum = product + static_cast<double>(c);
  const double part = sum - product;
  const double error = (product - (sum - part)) + (static_cast<double>(c) - part);
  std::uint64_t bits = bits_of(sum);
  if ((error > 0 || error < 0) && (bits & 1) == 0) bits = (error > 0) == (sum > 0) ? bits + 1 : bits - 1;
  return static_cast<float>(std::bit_cast<double>(bits) * (std::fabs(c) >= 2 ? 0x1p64 : 0x1p-64));
}
// The same with 2^128. A quad holds the exact product; the sum's error is far below the last place of the result.
[[nodiscard]] inline double div_fmas_rescaled(double a, double b, double c) noexcept {
  __extension__ using Quad = __float128;
  const Quad product = static_cast<Quad>(a) * static_cast<Quad>(b);
  const Quad sum = product + static_cast<Quad>(c);
  return static_cast<double>(sum * static_cast<Quad>(std::fabs(c) >= 2 ? 0x1p128 : 0x1p-128));
}

template <class T>
[[nodiscard]] inline T div_fixup(T quotient, T denominator, T numerator) noexcept {
  using F = FloatBits<T>;
  constexpr T k_infinity = std::numeric_limits<T>::infinity();
  const typename F::Bits sign = (bits_of(denominator) ^ bits_of(numerator)) & F::k_sign;
  const auto with_sign = [sign](T magnitude) {
    return std::bit_cast<T>((bits_of(magnitude) & ~F::k_sign) | sign);
  };
  const T invalid = std::bit_cast<T>(F::k_sign | F::k_exponent | F::k_quiet);
  const bool zero_d = denominator == 0, zero_n = numerator == 0;
  const bool infinite_d = std::fabs(denominator) == k_infinity, infinite_n = std::fabs(numerator) == k_infinity;
  // A quotient that came out as NaN overflowed on the way.
  T result = quotient != quotient ? with_sign(k_infinity) : with_sign(quotient);
  result = infinite_d || zero_n ? with_sign(T{0}) : result;
  result = zero_d || infinite_n ? with_sign(k_infinity) : result;
  result = (zero_d && zero_n) || (infinite_d && infinite_n) ? invalid : result;
  result = denominator != denominator ? quieted(denominator) : result;
  return numerator != numerator ? quieted(numerator) : result;
}

}  // namespace kerncap::softgpu
