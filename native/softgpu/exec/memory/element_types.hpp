// What memory instructions move: the size of an element in memory and how it sits in registers. The accesses are single
// moves of the element's size, so that a value that another worker or the host writes at the same time is seen whole.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "softgpu/exec/row.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

template <class T>
[[nodiscard]] inline T load_as(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
inline void store_as(std::byte* to, T value) noexcept {
  std::memcpy(to, &value, sizeof value);
}

// Which part of the register a byte or a short fills: all of it, extended, or one half (d16). Registers with error correction
// (sramecc, which all targets here have) are written whole, so a load to one half puts zeros in the other.
enum class Half : std::uint8_t { whole, low, high };

template <class T, Half k_half = Half::whole>
struct Narrow {
  static constexpr unsigned k_size = sizeof(T), k_rows = 1;
  static constexpr bool k_may_go_to_lds = k_half == Half::whole;

  static void load(const std::byte* from, Row* to, unsigned lane) noexcept {
    const auto value = static_cast<std::uint32_t>(static_cast<std::int32_t>(load_as<T>(from)));
    to[0].lane[lane] = k_half == Half::whole ? value : k_half == Half::low ? value & 0xFFFFU : value << 16;
  }
  static void store(std::byte* to, const Row* from, unsigned lane) noexcept {
    store_as(to, static_cast<T>(from[0].lane[lane] >> (k_half == Half::high ? 16 : 0)));
  }
};

template <unsigned k_count>
struct Dwords {
  static constexpr unsigned k_size = 4 * k_count, k_rows = k_count;
  static constexpr bool k_may_go_to_lds = k_count == 1;

  static void load(const std::byte* from, Row* to, unsigned lane) noexcept {
    if constexpr (k_count == 4) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      to[0].lane[lane] = static_cast<std::uint32_t>(_mm_extract_epi32(value, 0));
      to[1].lane[lane] = static_cast<std::uint32_t>(_mm_extract_epi32(value, 1));
      to[2].lane[lane] = static_cast<std::uint32_t>(_mm_extract_epi32(value, 2));
      to[3].lane[lane] = static_cast<std::uint32_t>(_mm_extract_epi32(value, 3));
    } else if constexpr (k_count == 1) {
      to[0].lane[lane] = load_as<std::uint32_t>(from);
    } else {
      const auto pair = load_as<std::uint64_t>(from);
      to[0].lane[lane] = static_cast<std::uint32_t>(pair);
      to[1].lane[lane] = static_cast<std::uint32_t>(pair >> 32);
      if constexpr (k_count == 3) to[2].lane[lane] = load_as<std::uint32_t>(from + 8);
    }
  }
  // Eight lanes at once: their elements as columns of vector registers, turned into rows. 128-bit halves hold lanes
  // i and i + 4, so that the rows come out in order.
  template <class Place>
  static void load_eight(Place place, Row* to, unsigned lane) noexcept requires(k_count == 2 || k_count == 4) {
    const auto put = [&](unsigned row, __m256i values) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(&to[row].lane[lane]), values);
    };
    const auto pair = [&](unsigned i) {
      const auto at = [&](unsigned j) { return reinterpret_cast<const __m128i*>(place(lane + j)); };
      if constexpr (k_count == 4) {
        return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(at(i))), _mm_loadu_si128(at(i + 4)), 1);
      } else {
        return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadl_epi64(at(i))), _mm_loadl_epi64(at(i + 4)), 1);
      }
    };
    const __m256i a = pair(0), b = pair(1), c = pair(2), d = pair(3);
    const __m256i ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);
    put(0, _mm256_unpacklo_epi64(ab, cd));
    put(1, _mm256_unpackhi_epi64(ab, cd));
    if constexpr (k_count == 4) {
      const __m256i ab_high = _mm256_unpackhi_epi32(a, b), cd_high = _mm256_unpackhi_epi32(c, d);
      put(2, _mm256_unpacklo_epi64(ab_high, cd_high));
      put(3, _mm256_unpackhi_epi64(ab_high, cd_high));
    }
  }
  template <class Place>
  static void store_eight(Place place, const Row* from, unsigned lane) noexcept requires(k_count == 4) {
    const auto row = [&](unsigned i) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(&from[i].lane[lane])); };
    const __m256i x = row(0), y = row(1), z = row(2), w = row(3);
    const __m256i xy = _mm256_unpacklo_epi32(x, y), zw = _mm256_unpacklo_epi32(z, w);
    const __m256i xy_high = _mm256_unpackhi_epi32(x, y), zw_high = _mm256_unpackhi_epi32(z, w);
    const __m256i column[4] = {_mm256_unpacklo_epi64(xy, zw), _mm256_unpackhi_epi64(xy, zw),
                               _mm256_unpacklo_epi64(xy_high, zw_high), _mm256_unpackhi_epi64(xy_high, zw_high)};
    // In rising order of lanes, as they may collide.
    const auto put = [&](unsigned i, __m128i value) { _mm_storeu_si128(reinterpret_cast<__m128i*>(place(lane + i)), value); };
    for (unsigned i = 0; i < 4; ++i) put(i, _mm256_castsi256_si128(column[i]));
    for (unsigned i = 0; i < 4; ++i) put(i + 4, _mm256_extracti128_si256(column[i], 1));
  }
  static void store(std::byte* to, const Row* from, unsigned lane) noexcept {
    const auto pair = [&](unsigned i) {
      return from[i].lane[lane] | (std::uint64_t{from[i + 1].lane[lane]} << 32);
    };
    if constexpr (k_count == 1) store_as(to, from[0].lane[lane]);
    if constexpr (k_count == 2 || k_count == 3) store_as(to, pair(0));
    if constexpr (k_count == 3) store_as(to + 8, from[2].lane[lane]);
    if constexpr (k_count == 4) {
      const __m128i value = _mm_set_epi64x(static_cast<long long>(pair(2)), static_cast<long long>(pair(0)));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), value);
    }
  }
};

}  // namespace kerncap::softgpu
