// The approximations of the transcendental unit. Evaluated in double and rounded once, so each result is within 0.51
// ulp of the true one; hardware promises 1 ulp. Exponential, logarithm, reciprocal and square root of f32 take a
// denormal for zero and return zero for one, whatever the wave's mode says, as the hardware does.
//
// Written without branches, for lane loops.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "softgpu/exec/vector/float_bits.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

inline constexpr double k_round_magic = 0x1.8p52;  // added and taken away again: rounds to an integer

// Coefficients from the highest power down. No loop, or the lane loop around it would not vectorise.
template <class... C>
[[nodiscard]] inline double polynomial(double x, double sum, C... coefficients) noexcept {
  ((sum = std::fma(sum, x, coefficients)), ...);
  return sum;
}

// 2^x: 2^n times the Taylor series of e^(f ln 2) for f in [-0.5, 0.5]; its 11th term is below 2^-42.
[[nodiscard]] inline float approximate_exp2(float x) noexcept {
  constexpr double k_ln2 = 0x1.62e42fefa39efp-1;
  double bounded = x > 300.0F ? 300.0 : static_cast<double>(x);
  bounded = x < -300.0F ? -300.0 : bounded;
  const double shifted = bounded + k_round_magic;
  const double t = (bounded - (shifted - k_round_magic)) * k_ln2;
  const double sum = polynomial(t, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24,
                                1.0 / 6, 0.5, 1.0, 1.0);
  // The low bits of `shifted` are n.
  const std::uint64_t scaled = std::bit_cast<std::uint64_t>(sum) + (std::bit_cast<std::uint64_t>(shifted) << 52);
  const auto result = static_cast<float>(std::bit_cast<double>(scaled));
  return x != x ? x : result;
}

// log2 x = n + log2 m, m in [sqrt(1/2), sqrt 2], by the series of artanh((m - 1) / (m + 1)).
[[nodiscard]] inline float approximate_log2(float x) noexcept {
  constexpr double k_two_over_ln2 = 0x1.71547652b82fep+1;
  constexpr float k_sqrt2 = 0x1.6a09e6p0F;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const float significand = std::bit_cast<float>((bits & 0x007FFFFFU) | 0x3F800000U);
  const bool halve = significand > k_sqrt2;
  const float m = halve ? significand * 0.5F : significand;
  const auto exponent = static_cast<std::int32_t>(bits >> 23) - 127 + (halve ? 1 : 0);
  const double s = (static_cast<double>(m) - 1.0) / (static_cast<double>(m) + 1.0);
  const double z = s * s;
  const double sum = polynomial(z, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0);
  auto result = static_cast<float>(std::fma(sum * s, k_two_over_ln2, static_cast<double>(exponent)));
  result = x == 0 ? -std::numeric_limits<float>::infinity() : result;
  result = x < 0 ? std::numeric_limits<float>::quiet_NaN() : result;
  result = x == std::numeric_limits<float>::infinity() ? x : result;
  return x != x ? x : result;
}

// sin(2 pi t) for t in turns, |t| <= 0.5 after reduction: folded to a quarter turn, then the Taylor series.
[[nodiscard]] inline double sine_of_turns(double turns) noexcept {
  constexpr double k_two_pi = 0x1.921fb54442d18p+2;
  const double reduced = turns - ((turns + k_round_magic) - k_round_magic);
  const double folded = std::copysign(0.5, reduced) - reduced;
  const double t = (std::fabs(reduced) > 0.25 ? folded : reduced) * k_two_pi;
  const double z = t * t;
  return t * polynomial(z, 1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880,
                        -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0);
}

// The input is in turns. Hardware's valid range is [-256, 256]; beyond it, sine is 0 and cosine 1.
[[nodiscard]] inline float approximate_sin(float x) noexcept {
  const auto result = static_cast<float>(sine_of_turns(static_cast<double>(x)));
  const float bounded = std::fabs(x) > 256.0F ? 0.0F : result;
  return x - x == 0 ? bounded : std::numeric_limits<float>::quiet_NaN();
}
[[nodiscard]] inline float approximate_cos(float x) noexcept {
  const auto result = static_cast<float>(sine_of_turns(static_cast<double>(x) + 0.25));
  const float bounded = std::fabs(x) > 256.0F ? 1.0F : result;
  return x - x == 0 ? bounded : std::numeric_limits<float>::quiet_NaN();
}

// 1 / sqrt(x): the quotient of two rounded operations, then one Newton step on its error.
[[nodiscard]] inline float approximate_rsq(float x) noexcept {
  const float first = 1.0F / std::sqrt(x);
  const float product = x * first;
  const float low = std::fma(x, first, -product);
  const float error = std::fma(-low, first, std::fma(-product, first, 1.0F));
  const float refined = std::fma(0.5F * first, error, first);
  return x > 0 && x < std::numeric_limits<float>::infinity() ? refined : first;
}

}  // namespace kerncap::softgpu
