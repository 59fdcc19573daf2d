// Handlers of the division helpers, and of the table lookup behind trigonometric range reduction.
#include "softgpu/exec/vector/division.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "softgpu/exec/vector/compare.hpp"
#include "softgpu/exec/vector/families.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

template <class T>
constexpr auto k_plain_division = [](T denominator, T numerator) { return needs_no_scale(denominator, numerator); };

template <class T>
Flow scale(WaveContext& wave, const Instruction& instruction) noexcept {
  const FloatModeScope scope(wave, std::is_same_v<T, float> ? FloatWidth::f32 : FloatWidth::f16_f64);
  Lanes<Storage<T>> buffers[3], result;
  const Storage<T>* sources[3];
  for (unsigned s = 0; s < 3; ++s) sources[s] = load_source<T, false>(wave, instruction, s, buffers[s]);
  std::copy_n(sources[0], k_lanes, result.lane);
  u64 rescale = 0;
  // Inactive lanes hold anything, often what takes long, and get no result.
  for (u64 left = active_lanes(wave) & ~compare_lanes<k_plain_division<T>, T, T>(sources[1], sources[2]); left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(left));
    const Scaled<T> scaled = div_scale(from_storage<T>(sources[0][i]), from_storage<T>(sources[1][i]),
                                       from_storage<T>(sources[2][i]));
    result.lane[i] = to_storage(scaled.value);
    rescale |= static_cast<u64>(scaled.rescale) << i;
  }
  store_result<T, false, HighHalf::clear>(wave, instruction, result);
  write_lane_mask(wave, instruction.sdst.index, rescale & active_lanes(wave));
  return Flow::next;
}

template <class T>
constexpr auto k_fma = [](T a, T b, T c) { return std::fma(a, b, c); };

template <class T>
Flow fmas(WaveContext& wave, const Instruction& instruction) noexcept {
  const FloatModeScope scope(wave, std::is_same_v<T, float> ? FloatWidth::f32 : FloatWidth::f16_f64);
  Lanes<Storage<T>> buffers[3], result;
  const Storage<T>* sources[3];
  for (unsigned s = 0; s < 3; ++s) sources[s] = load_source<T, false>(wave, instruction, s, buffers[s]);
  run_lanes<k_fma<T>, T, T, T, T>(result.lane, sources[0], sources[1], sources[2]);
  for (u64 left = wave.vcc() & active_lanes(wave); left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(left));
    result.lane[i] = to_storage(div_fmas_rescaled(from_storage<T>(sources[0][i]), from_storage<T>(sources[1][i]),
                                                  from_storage<T>(sources[2][i])));
  }
  store_result<T, false, HighHalf::clear>(wave, instruction, result);
  return Flow::next;
}

constexpr auto k_fixup_half = [](Half a, Half b, Half c) -> Half { return {div_fixup(a.value, b.value, c.value)}; };

// The first 1201 bits of 2 / pi, most significant first.
constexpr std::array<u64, 19> k_two_over_pi = {
    0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0,
    0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4,
    0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B0000};

// 53 bits of it from a segment on, further right for large arguments, at their place value.
constexpr auto k_trig_preop = [](double argument, u32 segment) {
  const int exponent = static_cast<int>((bits_of(argument) >> 52) & 0x7FF);
  int first = static_cast<int>(segment & 31) * 53;
  first += exponent > 1077 ? exponent - 1077 : 0;
  const auto word = static_cast<std::size_t>(first / 64);
  const auto bit = static_cast<unsigned>(first % 64);
  const u64 high = word < k_two_over_pi.size() ? k_two_over_pi[word] : 0;
  const u64 low = word + 1 < k_two_over_pi.size() ? k_two_over_pi[word + 1] : 0;
  const u64 window = (high << bit) | (bit == 0 ? 0 : low >> (64 - bit));
  const int power = -53 - first + (exponent >= 1968 ? 128 : 0);
  return std::ldexp(static_cast<double>(window >> 11), power);
};

template <Handler k_handler>
Handler make(Target target, Instruction& instruction) {
  return form_is_supported(target, instruction) ? k_handler : nullptr;
}

}  // namespace

void register_division(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_div_scale_f32", make<scale<float>>},
      {"v_div_scale_f64", make<scale<double>>},
      {"v_div_fmas_f32", make<fmas<float>>},
      {"v_div_fmas_f64", make<fmas<double>>},
      {"v_div_fixup_f32", lanewise<[](float a, float b, float c) { return div_fixup(a, b, c); }>},
      {"v_div_fixup_f64", lanewise<[](double a, double b, double c) { return div_fixup(a, b, c); }>},
      {"v_div_fixup_f16", lanewise<k_fixup_half, LaneOptions{HighHalf::keep}>},
      {"v_div_fixup_legacy_f16", lanewise<k_fixup_half>},
      {"v_trig_preop_f64", lanewise<k_trig_preop>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
