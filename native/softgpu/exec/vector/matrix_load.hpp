// Unpacks matrix operands: registers of packed numbers to [element][64 lanes] of floats, or of pairs of 16-bit integers.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "softgpu/exec/vector/float_bits.hpp"
#include "softgpu/exec/vector/fp8.hpp"
#include "softgpu/exec/vector/lane_transfer.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

enum class MatrixType { f32, xf32, f16, bf16, fp8, bf8, i8, f64 };

[[nodiscard]] constexpr unsigned elements_per_register(MatrixType type) noexcept {
  switch (type) {
    case MatrixType::f16:
    case MatrixType::bf16: return 2;
    case MatrixType::fp8:
    case MatrixType::bf8:
    case MatrixType::i8: return 4;
    default: return 1;
  }
}

// gfx90a takes denormal f16 and bf16 inputs for zero.
inline void flush_denormals(Lanes<float>& values, float least_normal) noexcept {
  for (float& value : values.lane) value = std::fabs(value) < least_normal ? std::copysign(0.0F, value) : value;
}

template <MatrixType k_type>
inline void unpack_register(const Row& row, bool flush, Lanes<float>* out) noexcept {
  if constexpr (k_type == MatrixType::f32) {
    for (unsigned i = 0; i < k_lanes; ++i) out->lane[i] = std::bit_cast<float>(row.lane[i]);
  } else if constexpr (k_type == MatrixType::xf32) {
    // Ten bits of mantissa, to nearest even; infinities and NaN do not come near the carry.
    for (unsigned i = 0; i < k_lanes; ++i) {
      const std::uint32_t bits = row.lane[i], rounded = (bits + 0xFFFU + ((bits >> 13) & 1)) & ~0x1FFFU;
      out->lane[i] = std::bit_cast<float>((bits & 0x7F800000U) == 0x7F800000U ? bits : rounded);
    }
  } else if constexpr (k_type == MatrixType::f16) {
    Row high;
    for (unsigned i = 0; i < k_lanes; ++i) high.lane[i] = row.lane[i] >> 16;
    halves_to_floats(row, out[0]);
    halves_to_floats(high, out[1]);
    if (flush) {
      flush_denormals(out[0], 0x1p-14F);
      flush_denormals(out[1], 0x1p-14F);
    }
  } else if constexpr (k_type == MatrixType::bf16) {
    for (unsigned i = 0; i < k_lanes; ++i) out[0].lane[i] = std::bit_cast<float>(row.lane[i] << 16);
    for (unsigned i = 0; i < k_lanes; ++i) out[1].lane[i] = std::bit_cast<float>(row.lane[i] & 0xFFFF0000U);
    if (flush) {
      flush_denormals(out[0], 0x1p-126F);
      flush_denormals(out[1], 0x1p-126F);
    }
  } else {
    static_assert(k_type == MatrixType::fp8 || k_type == MatrixType::bf8);
    constexpr const auto& k_values = k_type == MatrixType::fp8 ? k_fp8_values<k_fp8> : k_fp8_values<k_bf8>;
    for (unsigned part = 0; part < 4; ++part) {
      for (unsigned i = 0; i < k_lanes; ++i) out[part].lane[i] = k_values[(row.lane[i] >> (8 * part)) & 0xFF];
    }
  }
}

template <MatrixType k_type>
inline void unpack(const Row* rows, unsigned elements, bool flush, Lanes<float>* out) noexcept {
  constexpr unsigned k_step_elements = elements_per_register(k_type);
  for (unsigned e = 0; e < elements; e += k_step_elements) unpack_register<k_type>(rows[e / k_step_elements], flush, out + e);
}

// Bytes to pairs of 16-bit integers, two pairs a register: what VPMADDWD multiplies and adds.
inline void unpack_bytes(const Row* rows, unsigned elements, Lanes<std::uint32_t>* out) noexcept {
  const auto widened = [](std::uint32_t value, unsigned byte) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(value << (24 - 8 * byte)) >> 24) & 0xFFFF;
  };
  for (unsigned r = 0; r < elements / 4; ++r) {
    for (unsigned pair = 0; pair < 2; ++pair) {
      for (unsigned i = 0; i < k_lanes; ++i) {
        const std::uint32_t value = rows[r].lane[i];
        out[2 * r + pair].lane[i] = widened(value, 2 * pair) | (widened(value, 2 * pair + 1) << 16);
      }
    }
  }
}

}  // namespace kerncap::softgpu
