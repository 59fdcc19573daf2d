// Moving one element per lane between host memory and vector registers. A Place says where lane i's element is.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "softgpu/exec/memory/element_types.hpp"
#include "softgpu/exec/memory/lanes.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

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
    if constexpr (requires { Element::load_eight(place, to, 0); }) {
      for (unsigned lane = 0; lane < k_lanes; lane += 8) Element::load_eight(place, to, lane);
    } else {
      for (unsigned lane = 0; lane < k_lanes; ++lane) Element::load(place(lane), to, lane);
    }
  } else {
    for_each_lane(mask, [&](unsigned lane) { Element::load(place(lane), to, lane); });
  }
}

template <class Element, class Place>
inline void write_lanes(Place place, std::uint64_t mask, const Row* from) noexcept {
  if (mask == k_all_lanes) {
    if constexpr (requires { Element::store_eight(place, from, 0); }) {
      for (unsigned lane = 0; lane < k_lanes; lane += 8) Element::store_eight(place, from, lane);
    } else {
      for (unsigned lane = 0; lane < k_lanes; ++lane) Element::store(place(lane), from, lane);
    }
  } else {
    for_each_lane(mask, [&](unsigned lane) { Element::store(place(lane), from, lane); });
  }
}

// One dword a lane in a row: the most frequent access of all.
inline void read_row(std::uintptr_t start, std::uint64_t mask, Row& to) noexcept {
  const auto* from = reinterpret_cast<const std::byte*>(start);
  if (mask == k_all_lanes) {
    std::memcpy(to.lane, from, k_lanes * 4);
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
    std::memcpy(reinterpret_cast<std::byte*>(start), from.lane, k_lanes * 4);
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
