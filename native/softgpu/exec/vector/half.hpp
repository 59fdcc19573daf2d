// f16 and bf16 to float and back: single values here, whole rows in lane_transfer.hpp.
//
// Conversions to f16 follow the rounding mode in MXCSR; VCVTPS2PH ignores its denormal bits, so f16 denormals are
// always kept here and flushed, where the wave's mode asks for it, by the caller.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>

#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

[[nodiscard]] inline float half_to_float(std::uint16_t bits) noexcept { return _cvtsh_ss(bits); }
[[nodiscard]] inline std::uint16_t float_to_half(float value) noexcept {
  return static_cast<std::uint16_t>(_cvtss_sh(value, _MM_FROUND_CUR_DIRECTION));
}

// An f16 fused multiply-add, left as a float that rounds to the right half. The product of two halves is exact in
// float; the sum is rounded to odd (an inexact sum gets an odd last bit), so that the second rounding cannot be misled
// by the first.
[[nodiscard]] inline float fused_half(float a, float b, float c) noexcept {
  const float product = a * b;
  const float sum = product + c;
  const float part = sum - product;
  const float error = (product - (sum - part)) + (c - part);
  const auto bits = std::bit_cast<std::uint32_t>(sum), error_bits = std::bit_cast<std::uint32_t>(error);
  // Truncated: one less where the sum was rounded away from zero.
  const std::uint32_t truncated = bits - ((bits ^ error_bits) >> 31);
  // The error of an infinite sum is NaN.
  const bool inexact = (error_bits & 0x7FFFFFFFU) - 1U < 0x7F7FFFFFU;
  return std::bit_cast<float>(inexact ? truncated | 1U : bits);
}

}  // namespace kerncap::softgpu
