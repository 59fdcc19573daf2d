// Conversions between number types. Integers saturate, NaN becomes zero. f16 results round as the wave's f16 mode says,
// f32 results as its f32 mode.
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using u32 = std::uint32_t;
using i32 = std::int32_t;
using u16 = std::uint16_t;
using i16 = std::int16_t;

constexpr LaneOptions k_saturates{.clamp_is_harmless = true};
constexpr LaneOptions k_saturates_keep{HighHalf::keep, true};

// Truncates. Selects instead of branches; the cast sees only values that fit.
template <class I, class F>
[[nodiscard]] inline I to_integer(F value) noexcept {
  constexpr auto k_limit = static_cast<F>(0x1p31);  // 2^31, or the type's own limit where it is smaller
  if constexpr (std::is_same_v<I, u32>) {
    const bool high = value >= k_limit, too_big = value >= k_limit * 2;
    const F reduced = high ? value - k_limit : value;
    const F safe = too_big || !(value > 0) ? F{0} : reduced;
    const u32 result = static_cast<u32>(static_cast<i32>(safe)) + (high ? 0x80000000U : 0U);
    return too_big ? ~0U : result;
  } else {
    constexpr auto k_end = static_cast<F>(sizeof(I) < 4 ? std::numeric_limits<I>::max() + 1 : 0x1p31);
    constexpr auto k_least = static_cast<F>(std::numeric_limits<I>::min());
    const bool too_big = value >= k_end, too_small = value < k_least;
    const F safe = too_big || too_small || value != value ? F{0} : value;
    const auto result = static_cast<I>(static_cast<i32>(safe));
    return too_big ? std::numeric_limits<I>::max() : (too_small ? std::numeric_limits<I>::min() : result);
  }
}

// [-1, 1] or [0, 1] to the whole range of the integer, by the current rounding mode.
[[nodiscard]] inline i16 to_signed_norm(float value) noexcept {
  const float scaled = std::nearbyint(value * 32767.0F);
  const float bounded = scaled > 32767.0F ? 32767.0F : (scaled < -32767.0F ? -32767.0F : scaled);
  return to_integer<i16>(bounded);
}
[[nodiscard]] inline u16 to_unsigned_norm(float value) noexcept {
  return to_integer<u16>(std::nearbyint(value * 65535.0F));
}
[[nodiscard]] constexpr u32 pack(u16 low, u16 high) noexcept { return low | (u32{high} << 16); }

constexpr auto k_pk_snorm = [](float a, float b) {
  return pack(static_cast<u16>(to_signed_norm(a)), static_cast<u16>(to_signed_norm(b)));
};
constexpr auto k_pk_unorm = [](float a, float b) { return pack(to_unsigned_norm(a), to_unsigned_norm(b)); };
constexpr auto k_pk_snorm_half = [](Half a, Half b) { return k_pk_snorm(a.value, b.value); };
constexpr auto k_pk_unorm_half = [](Half a, Half b) { return k_pk_unorm(a.value, b.value); };

constexpr auto k_pk_u16 = [](u32 a, u32 b) {
  return pack(static_cast<u16>(a > 0xFFFF ? 0xFFFF : a), static_cast<u16>(b > 0xFFFF ? 0xFFFF : b));
};
[[nodiscard]] constexpr u16 saturated16(i32 value) noexcept {
  return static_cast<u16>(value > 32767 ? 32767 : (value < -32768 ? -32768 : value));
}
constexpr auto k_pk_i16 = [](i32 a, i32 b) { return pack(saturated16(a), saturated16(b)); };

[[nodiscard]] constexpr u32 saturated_byte(u32 half) noexcept {
  const auto value = static_cast<i32>(static_cast<i16>(half));
  return static_cast<u32>(value > 255 ? 255 : (value < 0 ? 0 : value));
}
constexpr auto k_sat_pk = [](u32 a) { return static_cast<u16>(saturated_byte(a) | (saturated_byte(a >> 16) << 8)); };

// A byte by the current rounding mode, put into byte `index` of a register.
[[nodiscard]] inline u32 to_byte(float value) noexcept {
  const float rounded = std::nearbyint(value);
  return to_integer<u32>(rounded > 255.0F ? 255.0F : rounded);
}
constexpr auto k_pk_byte = [](float value, u32 index, u32 old) {
  const u32 shift = 8 * (index & 3);
  return (old & ~(0xFFU << shift)) | (to_byte(value) << shift);
};

// The rounding mode is fixed: toward zero.
template <bool k_plain>
Flow pack_toward_zero(WaveContext& wave, const Instruction& instruction) noexcept {
  const auto halves = [](const u32* values) {
    const __m256 floats = _mm256_castsi256_ps(load_lanes(values));
    return _mm256_cvtepu16_epi32(_mm256_cvtps_ph(floats, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
  };
  Lanes<u32> buffers[2];
  const u32* low = load_source<float, k_plain>(wave, instruction, 0, buffers[0]);
  const u32* high = load_source<float, k_plain>(wave, instruction, 1, buffers[1]);
  Row result;
  for (unsigned i = 0; i < k_lanes; i += k_step) {
    store_lanes(&result.lane[i], _mm256_or_si256(halves(low + i), _mm256_slli_epi32(halves(high + i), 16)));
  }
  commit_plain(wave, instruction, &result, 1);
  return Flow::next;
}
Handler make_pack_toward_zero(Target target, Instruction& instruction) {
  if (!form_is_supported(target, instruction) || instruction.variant != Variant::plain) return nullptr;
  return is_plain(instruction) ? pack_toward_zero<true> : pack_toward_zero<false>;
}

// Packs two halves; a signaling NaN stays what it is.
constexpr auto k_pack_halves = [](u16 a, u16 b) { return pack(a, b); };

template <unsigned k_byte>
constexpr auto k_byte_to_float = [](u32 a) { return static_cast<float>(static_cast<i32>((a >> (8 * k_byte)) & 0xFF)); };

// Four signed bits as sixteenths.
constexpr auto k_offset = [](u32 a) { return static_cast<float>(static_cast<i32>(a << 28) >> 28) * 0.0625F; };

// v_cvt_pkaccum_u8_f32 keeps the other bytes of its destination, which it reads though it is no source.
Flow pk_accumulate(WaveContext& wave, const Instruction& instruction) noexcept {
  const FloatModeScope scope(wave, FloatWidth::f32);
  Lanes<u32> value_buffer, index_buffer;
  const u32* value = load_source<float, false>(wave, instruction, 0, value_buffer);
  const u32* index = load_source<u32, false>(wave, instruction, 1, index_buffer);
  const Row& old = *wave.destination_row(instruction.dst);
  Row result;
  for (unsigned i = 0; i < k_lanes; ++i) {
    result.lane[i] = k_pk_byte(std::bit_cast<float>(value[i]), index[i], old.lane[i]);
  }
  commit_plain(wave, instruction, &result, 1);
  return Flow::next;
}

}  // namespace

void register_convert(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_cvt_i32_f32", lanewise<[](float a) { return to_integer<i32>(a); }, k_saturates>},
      {"v_cvt_u32_f32", lanewise<[](float a) { return to_integer<u32>(a); }, k_saturates>},
      {"v_cvt_i32_f64", lanewise<[](double a) { return to_integer<i32>(a); }, k_saturates>},
      {"v_cvt_u32_f64", lanewise<[](double a) { return to_integer<u32>(a); }, k_saturates>},
      {"v_cvt_i16_f16", lanewise<[](Half a) { return to_integer<i16>(a.value); }, k_saturates>},
      {"v_cvt_u16_f16", lanewise<[](Half a) { return to_integer<u16>(a.value); }, k_saturates>},
      {"v_cvt_rpi_i32_f32", lanewise<[](float a) { return to_integer<i32>(std::floor(a + 0.5F)); }, k_saturates>},
      {"v_cvt_flr_i32_f32", lanewise<[](float a) { return to_integer<i32>(std::floor(a)); }, k_saturates>},
      {"v_cvt_f32_i32", lanewise<[](i32 a) { return static_cast<float>(a); }>},
      // Through double, which holds every u32: one rounding.
      {"v_cvt_f32_u32", lanewise<[](u32 a) { return static_cast<float>(static_cast<double>(a)); }>},
      {"v_cvt_f64_i32", lanewise<[](i32 a) { return static_cast<double>(a); }>},
      {"v_cvt_f64_u32", lanewise<[](u32 a) { return static_cast<double>(a); }>},
      {"v_cvt_f16_i16", lanewise<[](i16 a) -> Half { return {static_cast<float>(a)}; }>},
      {"v_cvt_f16_u16", lanewise<[](u16 a) -> Half { return {static_cast<float>(a)}; }>},
      {"v_cvt_f16_f32", lanewise<[](float a) -> Half { return {a}; }>},
      {"v_cvt_f32_f16", lanewise<[](Half a) { return a.value; }>},
      {"v_cvt_f32_f64", lanewise<[](double a) { return static_cast<float>(a); }>},
      {"v_cvt_f64_f32", lanewise<[](float a) { return static_cast<double>(a); }>},
      {"v_cvt_f32_ubyte0", lanewise<k_byte_to_float<0>>},
      {"v_cvt_f32_ubyte1", lanewise<k_byte_to_float<1>>},
      {"v_cvt_f32_ubyte2", lanewise<k_byte_to_float<2>>},
      {"v_cvt_f32_ubyte3", lanewise<k_byte_to_float<3>>},
      {"v_cvt_off_f32_i4", lanewise<k_offset>},
      {"v_cvt_norm_i16_f16", lanewise<[](Half a) { return to_signed_norm(a.value); }, k_saturates_keep>},
      {"v_cvt_norm_u16_f16", lanewise<[](Half a) { return to_unsigned_norm(a.value); }, k_saturates_keep>},
      {"v_cvt_pknorm_i16_f32", lanewise<k_pk_snorm, k_saturates>},
      {"v_cvt_pknorm_u16_f32", lanewise<k_pk_unorm, k_saturates>},
      {"v_cvt_pknorm_i16_f16", lanewise<k_pk_snorm_half, k_saturates>},
      {"v_cvt_pknorm_u16_f16", lanewise<k_pk_unorm_half, k_saturates>},
      {"v_cvt_pk_u16_u32", lanewise<k_pk_u16, k_saturates>},
      {"v_cvt_pk_i16_i32", lanewise<k_pk_i16, k_saturates>},
      {"v_cvt_pkrtz_f16_f32", make_pack_toward_zero},
      {"v_cvt_pk_u8_f32", lanewise<k_pk_byte, k_saturates>},
      {"v_cvt_pkaccum_u8_f32", always<pk_accumulate>},
      {"v_sat_pk_u8_i16", lanewise<k_sat_pk, k_saturates_keep>},
      {"v_pack_b32_f16", lanewise<k_pack_halves>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
