// Floating-point values by their bits: classes, flushing, and the minimum and maximum of the hardware, in forms that
// vectorise (selects, no branches).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "softgpu/exec/vector/element.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

template <class T>
struct FloatBits;
template <>
struct FloatBits<float> {
  using Bits = std::uint32_t;
  static constexpr unsigned k_mantissa = 23;
  static constexpr int k_bias = 127;
  static constexpr Bits k_sign = 0x80000000U, k_exponent = 0x7F800000U, k_quiet = 0x00400000U;
};
template <>
struct FloatBits<double> {
  using Bits = std::uint64_t;
  static constexpr unsigned k_mantissa = 52;
  static constexpr int k_bias = 1023;
  static constexpr Bits k_sign = 0x8000000000000000U, k_exponent = 0x7FF0000000000000U, k_quiet = 0x0008000000000000U;
};

template <class T>
[[nodiscard]] inline typename FloatBits<T>::Bits bits_of(T value) noexcept {
  return std::bit_cast<typename FloatBits<T>::Bits>(value);
}

template <class T>
[[nodiscard]] inline bool is_signaling(T value) noexcept {
  return value != value && (bits_of(value) & FloatBits<T>::k_quiet) == 0;
}
template <class T>
[[nodiscard]] inline T quieted(T value) noexcept {
  return std::bit_cast<T>(bits_of(value) | FloatBits<T>::k_quiet);
}
// A denormal becomes a zero of its sign.
template <class T>
[[nodiscard]] inline T flushed(T value) noexcept {
  using F = FloatBits<T>;
  return std::bit_cast<T>((bits_of(value) & F::k_exponent) == 0 ? bits_of(value) & F::k_sign : bits_of(value));
}

// What minimum and maximum do about NaN: `quiet`: one NaN loses against a number; `ieee` mode: besides, a signaling NaN
// wins and is made quiet; `none`: the caller knows that there is none.
enum class NanRule { none, quiet, ieee };

template <NanRule k_rule, class T>
[[nodiscard]] inline T with_nan_rule(T result, T a, T b) noexcept {
  if constexpr (k_rule != NanRule::none) result = b != b ? a : result;
  if constexpr (k_rule == NanRule::ieee) {
    result = is_signaling(b) ? quieted(b) : result;
    result = is_signaling(a) ? quieted(a) : result;
  }
  return result;
}
// -0 is less than +0.
template <NanRule k_rule, class T>
[[nodiscard]] inline T minimum(T a, T b) noexcept {
  const T result = a < b ? a : b;
  return with_nan_rule<k_rule>(a == b ? std::bit_cast<T>(bits_of(a) | bits_of(b)) : result, a, b);
}
template <NanRule k_rule, class T>
[[nodiscard]] inline T maximum(T a, T b) noexcept {
  const T result = a > b ? a : b;
  return with_nan_rule<k_rule>(a == b ? std::bit_cast<T>(bits_of(a) & bits_of(b)) : result, a, b);
}
template <NanRule k_rule, class T>
[[nodiscard]] inline T median(T a, T b, T c) noexcept {
  constexpr NanRule k_numbers = NanRule::none;  // with a NaN, the least is the result
  const T without_c = maximum<k_numbers>(a, b), without_b = maximum<k_numbers>(a, c), without_a = maximum<k_numbers>(b, c);
  const T most = maximum<k_numbers>(without_c, c);
  T result = most == b ? without_b : without_c;
  result = most == a ? without_a : result;
  if constexpr (k_rule == NanRule::none) return result;
  return a != a || b != b || c != c ? minimum<k_rule>(minimum<k_rule>(a, b), c) : result;
}

// To the nearest integer, ties to even, whatever the sign; only right while MXCSR rounds to nearest even.
template <class T>
[[nodiscard]] inline T nearest_integer(T value) noexcept {
  constexpr T k_no_fraction = static_cast<T>(std::uint64_t{1} << FloatBits<T>::k_mantissa);
  const T magnitude = std::fabs(value);
  const T rounded = std::copysign((magnitude + k_no_fraction) - k_no_fraction, value);
  return magnitude < k_no_fraction ? rounded : value;
}

// The mantissa in [0.5, 1) and its exponent, denormals normalised; infinities and NaN as they are, with exponent 0.
template <class T>
[[nodiscard]] inline int frexp_exponent(T value) noexcept {
  using F = FloatBits<T>;
  constexpr int k_width = sizeof(T) * 8;
  const typename F::Bits magnitude = bits_of(value) & ~F::k_sign;
  const auto biased = static_cast<int>(magnitude >> F::k_mantissa);
  if (magnitude == 0 || biased == 2 * F::k_bias + 1) return 0;
  if (biased != 0) return biased - F::k_bias + 1;
  return k_width - std::countl_zero(magnitude) - static_cast<int>(F::k_mantissa) - F::k_bias + 1;
}
template <class T>
[[nodiscard]] inline T frexp_mantissa(T value) noexcept {
  using F = FloatBits<T>;
  constexpr typename F::Bits k_fraction = (typename F::Bits{1} << F::k_mantissa) - 1;
  constexpr auto k_half = static_cast<typename F::Bits>(F::k_bias - 1) << F::k_mantissa;
  typename F::Bits magnitude = bits_of(value) & ~F::k_sign;
  if (magnitude == 0 || (magnitude & F::k_exponent) == F::k_exponent) return value;
  if ((magnitude & F::k_exponent) == 0) {
    magnitude <<= std::countl_zero(magnitude) - (static_cast<int>(sizeof(T) * 8) - static_cast<int>(F::k_mantissa) - 1);
  }
  return std::bit_cast<T>((bits_of(value) & F::k_sign) | k_half | (magnitude & k_fraction));
}

}  // namespace kerncap::softgpu
