// Moves between registers (rows of 32-bit lanes) and the packed arrays that lane loops read and write.
#pragma once

#include <immintrin.h>

#include <bit>

#include "softgpu/exec/row.hpp"
#include "softgpu/exec/vector/element.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

inline constexpr unsigned k_step = 8;  // 32-bit lanes in one AVX2 register

[[nodiscard]] inline __m256i load_lanes(const std::uint32_t* lanes) noexcept {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(lanes));
}
inline void store_lanes(std::uint32_t* lanes, __m256i value) noexcept {
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), value);
}

// rows[0] and rows[1], the low and the high dword of each lane, to 64-bit lanes.
inline void join_rows(const Row* rows, Lanes<std::uint64_t>& out) noexcept {
  for (unsigned i = 0; i < k_lanes; i += k_step) {
    const __m256i low = load_lanes(&rows[0].lane[i]), high = load_lanes(&rows[1].lane[i]);
    const __m256i a = _mm256_unpacklo_epi32(low, high), b = _mm256_unpackhi_epi32(low, high);
    auto* to = reinterpret_cast<__m256i*>(&out.lane[i]);
    _mm256_store_si256(to, _mm256_permute2x128_si256(a, b, 0x20));
    _mm256_store_si256(to + 1, _mm256_permute2x128_si256(a, b, 0x31));
  }
}
inline void split_lanes(const Lanes<std::uint64_t>& in, Row* rows) noexcept {
  for (unsigned i = 0; i < k_lanes; i += k_step) {
    const auto* from = reinterpret_cast<const float*>(&in.lane[i]);
    const __m256 a = _mm256_load_ps(from), b = _mm256_load_ps(from + k_step);
    const __m256i low = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
    const __m256i high = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xDD));
    store_lanes(&rows[0].lane[i], _mm256_permute4x64_epi64(low, 0xD8));
    store_lanes(&rows[1].lane[i], _mm256_permute4x64_epi64(high, 0xD8));
  }
}

// The low half of each lane.
inline __m128i low_halves(const std::uint32_t* lanes) noexcept {
  const __m256i low = _mm256_and_si256(load_lanes(lanes), _mm256_set1_epi32(0xFFFF));
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
  return _mm256_castsi256_si128(packed);
}
inline void narrow_row(const Row& row, Lanes<std::uint16_t>& out) noexcept {
  for (unsigned i = 0; i < k_lanes; i += k_step) {
    _mm_store_si128(reinterpret_cast<__m128i*>(&out.lane[i]), low_halves(&row.lane[i]));
  }
}
inline void widen_lanes(const Lanes<std::uint16_t>& in, Row& row) noexcept {
  for (unsigned i = 0; i < k_lanes; i += k_step) {
    const __m128i halves = _mm_load_si128(reinterpret_cast<const __m128i*>(&in.lane[i]));
    store_lanes(&row.lane[i], _mm256_cvtepu16_epi32(halves));
  }
}

// The f16 in the low half of each lane to float, and back with the high half zero, rounded as MXCSR says.
inline void halves_to_floats(const Row& row, Lanes<float>& out) noexcept {
  for (unsigned i = 0; i < k_lanes; i += k_step) {
    _mm256_store_ps(&out.lane[i], _mm256_cvtph_ps(low_halves(&row.lane[i])));
  }
}
// The conversion makes signaling NaN quiet; this takes that back.
inline void restore_signaling(const Lanes<std::uint16_t>& halves, Lanes<float>& values) noexcept {
  for (unsigned i = 0; i < k_lanes; ++i) {
    const std::uint32_t magnitude = halves.lane[i] & 0x7FFFU;
    const bool signaling = magnitude > 0x7C00 && magnitude < 0x7E00;
    const auto bits = std::bit_cast<std::uint32_t>(values.lane[i]);
    values.lane[i] = std::bit_cast<float>(signaling ? bits & ~0x00400000U : bits);
  }
}
inline void halves_to_ordered_floats(const Row& row, Lanes<float>& out) noexcept {
  Lanes<std::uint16_t> halves;
  narrow_row(row, halves);
  halves_to_floats(row, out);
  restore_signaling(halves, out);
}
inline void floats_to_halves(const Lanes<float>& in, Row& row) noexcept {
  for (unsigned i = 0; i < k_lanes; i += k_step) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_load_ps(&in.lane[i]), _MM_FROUND_CUR_DIRECTION);
    store_lanes(&row.lane[i], _mm256_cvtepu16_epi32(halves));
  }
}

// The lanes of `value` where `mask` is all ones, the old ones elsewhere.
inline void blend_row(Row& row, const Row& value, const Row& mask) noexcept {
  for (unsigned i = 0; i < k_lanes; i += k_step) {
    store_lanes(&row.lane[i], _mm256_blendv_epi8(load_lanes(&row.lane[i]), load_lanes(&value.lane[i]),
                                                 load_lanes(&mask.lane[i])));
  }
}

// All ones in the lanes whose bit is set, zero elsewhere.
inline void expand_mask(std::uint64_t mask, Row& out) noexcept {
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  for (unsigned i = 0; i < k_lanes; i += k_step) {
    const __m256i byte = _mm256_set1_epi32(static_cast<int>((mask >> i) & 0xFF));
    store_lanes(&out.lane[i], _mm256_cmpeq_epi32(_mm256_and_si256(byte, bits), bits));
  }
}

// One bit from the sign of each byte.
[[nodiscard]] inline std::uint64_t gather_mask(const Lanes<std::uint8_t>& flags) noexcept {
  const auto* from = reinterpret_cast<const __m256i*>(flags.lane);
  std::uint64_t mask = 0;
  for (unsigned i = 0; i < k_lanes / 32; ++i) {
    mask |= std::uint64_t{static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_load_si256(from + i)))} << (32 * i);
  }
  return mask;
}

}  // namespace kerncap::softgpu
