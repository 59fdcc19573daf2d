// Moving one element per lane between host memory and vector registers.
//
// An Element says what an instruction moves: its size in memory and how it sits in a register. A Place says where lane
// i's element is. The accesses are single moves of the element's size, so that a value that another worker or the host
// writes at the same time is seen whole.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "softgpu/exec/memory/lanes.hpp"

namespace kerncap::softgpu {

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

// Which part of the register a byte or a short fills: all of it, extended, or one half, keeping the other (d16).
enum class Half : std::uint8_t { whole, low, high };

template <class T, Half k_half = Half::whole>
struct Narrow {
  static constexpr unsigned k_size = sizeof(T), k_rows = 1;
  static constexpr bool k_may_go_to_lds = k_half == Half::whole;

  static void load(const std::byte* from, Row* to, unsigned lane) noexcept {
    std::uint32_t& word = to[0].lane[lane];
    const auto value = static_cast<std::uint32_t>(static_cast<std::int32_t>(load_as<T>(from)));
    if constexpr (k_half == Half::whole) word = value;
    if constexpr (k_half == Half::low) word = (word & 0xFFFF0000U) | (value & 0xFFFFU);
    if constexpr (k_half == Half::high) word = (word & 0xFFFFU) | (value << 16);
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

// Lane i at start + i * k_stride. The start may lie before the memory itself when the first lanes are inactive, so it
// is a number, not a pointer.
template <unsigned k_stride>
struct Strided {
  std::uintptr_t start;
  [[nodiscard]] std::byte* operator()(unsigned lane) const noexcept {
    return reinterpret_cast<std::byte*>(start + std::uintptr_t{lane} * k_stride);
  }
};

struct Scattered {
  std::uintptr_t base;
  const Row* offset;
  std::uint32_t add;
  [[nodiscard]] std::byte* operator()(unsigned lane) const noexcept {
    return reinterpret_cast<std::byte*>(base + (offset->lane[lane] + add));
  }
};

// Bit i of the byte becomes all ones in element i: the mask of a masked move of eight lanes.
[[nodiscard]] inline __m256i expand_mask(std::uint64_t byte) noexcept {
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i spread = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(byte & 0xFF)), bits);
  return _mm256_cmpeq_epi32(spread, bits);
}

template <class Element, class Place>
inline void read_lanes(Place place, std::uint64_t mask, Row* to) noexcept {
  if (mask == k_all_lanes) {
    for (unsigned lane = 0; lane < k_lanes; ++lane) Element::load(place(lane), to, lane);
  } else {
    for_each_lane(mask, [&](unsigned lane) { Element::load(place(lane), to, lane); });
  }
}

template <class Element, class Place>
inline void write_lanes(Place place, std::uint64_t mask, const Row* from) noexcept {
  if (mask == k_all_lanes) {
    for (unsigned lane = 0; lane < k_lanes; ++lane) Element::store(place(lane), from, lane);
  } else {
    for_each_lane(mask, [&](unsigned lane) { Element::store(place(lane), from, lane); });
  }
}

// 64 dwords in a row: the most frequent access of all.
inline void read_row(std::uintptr_t start, std::uint64_t mask, Row& to) noexcept {
  const auto* from = reinterpret_cast<const std::byte*>(start);
  if (mask == k_all_lanes) {
    std::memcpy(to.lane, from, sizeof to.lane);
    return;
  }
  for (unsigned lane = 0; lane < k_lanes; lane += 8) {
    if (((mask >> lane) & 0xFF) == 0) continue;
    const __m256i keep = expand_mask(mask >> lane);
    const __m256i values = _mm256_maskload_epi32(reinterpret_cast<const int*>(start + lane * 4), keep);
    _mm256_maskstore_epi32(reinterpret_cast<int*>(&to.lane[lane]), keep, values);
  }
}
inline void write_row(std::uintptr_t start, std::uint64_t mask, const Row& from) noexcept {
  if (mask == k_all_lanes) {
    std::memcpy(reinterpret_cast<std::byte*>(start), from.lane, sizeof from.lane);
    return;
  }
  for (unsigned lane = 0; lane < k_lanes; lane += 8) {
    if (((mask >> lane) & 0xFF) == 0) continue;
    const __m256i keep = expand_mask(mask >> lane);
    const __m256i values = _mm256_load_si256(reinterpret_cast<const __m256i*>(&from.lane[lane]));
    _mm256_maskstore_epi32(reinterpret_cast<int*>(start + lane * 4), keep, values);
  }
}

}  // namespace kerncap::softgpu
