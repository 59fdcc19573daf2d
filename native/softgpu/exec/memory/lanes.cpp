// Row-wide passes over addresses. Plain loops: the compiler turns each into a few AVX2 instructions.
#include "softgpu/exec/memory/lanes.hpp"

#include <immintrin.h>

#include <algorithm>

namespace kerncap::softgpu::inline KERNCAP_WAVE {

const Row k_zero_row{};

namespace {

template <bool k_all>
Span span(const Row& offset, std::uint32_t add, const Row* active, std::uint64_t mask, unsigned size_bytes) noexcept {
  const unsigned first = k_all ? 0 : first_lane(mask);
  const unsigned last = k_all ? k_lanes - 1 : last_lane(mask);
  const std::uint32_t start = offset.lane[first] + add - first * size_bytes;
  std::uint32_t low = ~0U, high = 0, difference = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    const std::uint32_t value = offset.lane[i] + add;
    const std::uint32_t keep = k_all ? ~0U : active->lane[i];
    low = std::min(low, value | ~keep);
    high = std::max(high, value & keep);
    difference |= (value ^ (start + i * size_bytes)) & keep;
  }
  // The second condition rules out a run that wraps around at 2^32.
  return {low, high, difference == 0 && high - low == (last - first) * size_bytes};
}

}  // namespace

const Row& mask_row(WaveContext& wave, std::uint64_t mask) noexcept {
  if (mask == active_lanes(wave)) return wave.exec_row();
  Row& row = wave.worker->scratch[k_mask_scratch];
  for (unsigned i = 0; i < k_lanes; ++i) row.lane[i] = 0U - static_cast<std::uint32_t>((mask >> i) & 1);
  return row;
}

Span span_of(WaveContext& wave, const LaneOffsets& lanes, unsigned size_bytes) noexcept {
  if (lanes.mask == k_all_lanes) return span<true>(*lanes.offset, lanes.add, nullptr, lanes.mask, size_bytes);
  return span<false>(*lanes.offset, lanes.add, &mask_row(wave, lanes.mask), lanes.mask, size_bytes);
}

std::uint64_t lanes_equal(const Row& row, std::uint32_t value, std::uint64_t mask) noexcept {
  const __m256i wanted = _mm256_set1_epi32(static_cast<int>(value));
  std::uint64_t equal = 0;
  for (unsigned i = 0; i < k_lanes; i += 8) {
    const __m256i values = _mm256_load_si256(reinterpret_cast<const __m256i*>(&row.lane[i]));
    const auto bits = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(values, wanted))));
    equal |= std::uint64_t{bits} << i;
  }
  return equal & mask;
}

}  // namespace kerncap::softgpu
