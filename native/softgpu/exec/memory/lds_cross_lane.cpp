// DS instructions that move values between lanes without touching the LDS, and the wave-wide counters.
#include <immintrin.h>

#include <bit>

#include "softgpu/exec/memory/families.hpp"
#include "softgpu/exec/memory/lds_address.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

// What each active lane gets: the value of the lane `source(i)`, eight of them at a time, or 0 when that one is inactive.
template <class Sources>
Flow gather_lanes(WaveContext& wave, const Row& values, Row& to, Sources&& sources) noexcept {
  Row& readable = wave.worker->scratch[k_bounce_rows];  // a copy, as `to` may be the same register
  const Row& active = wave.exec_row();
  for (unsigned i = 0; i < k_lanes; ++i) readable.lane[i] = values.lane[i] & active.lane[i];
  for (unsigned i = 0; i < k_lanes; i += 8) {
    const auto* base = reinterpret_cast<const int*>(readable.lane);
    const __m256i gathered = _mm256_i32gather_epi32(base, sources(i), 4);
    const __m256i mask = _mm256_load_si256(reinterpret_cast<const __m256i*>(&active.lane[i]));
    auto* out = reinterpret_cast<__m256i*>(&to.lane[i]);
    _mm256_store_si256(out, _mm256_blendv_epi8(_mm256_load_si256(out), gathered, mask));
  }
  return Flow::next;
}

// The offset field is a pattern in one of four notations; lanes never leave their half of 32.
[[nodiscard]] unsigned swizzle_source(unsigned pattern, unsigned lane) noexcept {
  const unsigned half = lane & 32, i = lane & 31;
  if (pattern >= 0xE000) {  // butterfly of a Fourier transform: bit reversal below the mask
    const unsigned mask = pattern & 0x1F;
    if (mask == 0x1F) return lane;
    unsigned reversed = 0;
    for (unsigned bit = 0; bit < 5; ++bit) reversed |= ((i >> bit) & 1) << (4 - bit);
    return half | (reversed >> std::popcount(mask)) | (i & mask);
  }
  if (pattern >= 0xC000) {  // rotation of the bits outside the mask
    const unsigned mask = pattern & 0x1F, amount = (pattern >> 5) & 0x1F;
    const unsigned moved = (pattern & 0x400) != 0 ? i - amount : i + amount;
    return half | (i & mask) | (moved & ~mask & 0x1F);
  }
  if (pattern >= 0x8000) return (lane & ~3U) | ((pattern >> (2 * (lane & 3))) & 3);  // any of four
  return half | ((((i & pattern) | (pattern >> 5)) ^ (pattern >> 10)) & 0x1F);  // and, or, xor masks of five bits
}

Flow swizzle(WaveContext& wave, const Instruction& in) noexcept {
  const auto pattern = static_cast<unsigned>(in.offset);
  Row& from = wave.worker->scratch[k_bounce_rows + 1];
  for (unsigned lane = 0; lane < k_lanes; ++lane) from.lane[lane] = swizzle_source(pattern, lane);
  return gather_lanes(wave, wave.vgpr[in.src[0].index], *wave.destination_row(in.dst), [&](unsigned lane) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(&from.lane[lane]));
  });
}

// Byte addresses of lanes; bits beyond the lane number are ignored.
[[nodiscard]] unsigned lane_at(const WaveContext& wave, const Instruction& in, unsigned lane) noexcept {
  const std::uint32_t address = wave.vgpr[in.src[0].index].lane[lane] + static_cast<std::uint32_t>(in.offset);
  return (address / 4) % k_lanes;
}

Flow backward_permute(WaveContext& wave, const Instruction& in) noexcept {
  const Row& address = wave.vgpr[in.src[0].index];
  const __m256i offset = _mm256_set1_epi32(static_cast<int>(in.offset)), lanes = _mm256_set1_epi32(k_lanes - 1);
  return gather_lanes(wave, *wave.source_row(in, 1), *wave.destination_row(in.dst), [&](unsigned lane) {
    const __m256i bytes = _mm256_load_si256(reinterpret_cast<const __m256i*>(&address.lane[lane]));
    return _mm256_and_si256(_mm256_srli_epi32(_mm256_add_epi32(bytes, offset), 2), lanes);
  });
}

// Each active lane sends; of several that send to one lane the highest wins, and a lane that nobody sends to gets 0.
Flow permute(WaveContext& wave, const Instruction& in) noexcept {
  Row& result = wave.worker->scratch[k_bounce_rows];
  result = Row{};
  const Row& values = *wave.source_row(in, 1);
  for_each_lane(active_lanes(wave), [&](unsigned lane) { result.lane[lane_at(wave, in, lane)] = values.lane[lane]; });
  Row& to = *wave.destination_row(in.dst);
  for_each_lane(active_lanes(wave), [&](unsigned lane) { to.lane[lane] = result.lane[lane]; });
  return Flow::next;
}

// Adds the number of active lanes to the counter at M0[15:0] + offset, or subtracts it; every lane gets the old value.
template <bool k_add>
Flow count_lanes(WaveContext& wave, const Instruction& in) noexcept {
  const std::uint64_t mask = active_lanes(wave);
  if (mask == 0) return Flow::next;
  const std::uint32_t at = (wave.m0() & 0xFFFF) + static_cast<std::uint32_t>(in.offset);
  if (at % 4 != 0) return wave.stop(in, FaultKind::misaligned_address, at, 0, AccessKind::atomic, 4);
  std::uint32_t old = 0;
  if (std::uint64_t{at} + 4 <= wave.lds_size_bytes) {
    old = load_as<std::uint32_t>(wave.lds + at);
    const auto lanes = static_cast<std::uint32_t>(std::popcount(mask));
    store_as(wave.lds + at, k_add ? old + lanes : old - lanes);
  } else if (!goes_on_beyond_lds(wave, in, at, first_lane(mask), AccessKind::atomic, 4)) {
    return Flow::fault;
  }
  Row& to = *wave.destination_row(in.dst);
  for_each_lane(mask, [&](unsigned lane) { to.lane[lane] = old; });
  return Flow::next;
}

constexpr HandlerEntry k_entries[] = {
    {"ds_swizzle_b32", always<swizzle>},
    {"ds_permute_b32", always<permute>},
    {"ds_bpermute_b32", always<backward_permute>},
    {"ds_append", lds_only<count_lanes<true>>},
    {"ds_consume", lds_only<count_lanes<false>>},
};

}  // namespace

void register_lds_cross_lane(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu
