// Source and result modifiers of the vector encodings, all lanes at a time.
#include "softgpu/exec/vector/modifiers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "softgpu/exec/vector/dpp.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

constexpr unsigned k_first_scratch = 8;  // source_row() broadcasts into 0..7
constexpr std::uint32_t k_mode_fp16_overflow = 1U << 23;

struct Field {
  unsigned shift, bits;
};
// SDWA selectors: 0..3 byte, 4..5 word, 6 dword.
constexpr Field k_sdwa_field[8] = {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {0, 16}, {16, 16}, {0, 32}, {0, 32}};

void select_field(const Row& in, Field field, bool sign_extend, Row& out) noexcept {
  const unsigned up = 32 - field.shift - field.bits, down = 32 - field.bits;
  if (sign_extend) {
    for (unsigned i = 0; i < k_lanes; ++i) {
      out.lane[i] = static_cast<std::uint32_t>(static_cast<std::int32_t>(in.lane[i] << up) >> down);
    }
  } else {
    for (unsigned i = 0; i < k_lanes; ++i) out.lane[i] = (in.lane[i] << up) >> down;
  }
}

void place_field(const Row& old, Field field, unsigned unused, Row& result) noexcept {
  const std::uint32_t ones = ~0U >> (32 - field.bits), mask = ones << field.shift;
  for (unsigned i = 0; i < k_lanes; ++i) {
    const std::uint32_t value = result.lane[i] & ones;
    std::uint32_t placed = value << field.shift;
    if (unused == 1 && (value >> (field.bits - 1)) != 0) placed |= ~(mask | (mask - 1));  // sign, above the field
    if (unused == 2) placed |= old.lane[i] & ~mask;
    result.lane[i] = placed;
  }
}

[[nodiscard]] bool keeps_f32_denormals(const WaveContext& wave) noexcept { return (wave.mode & 0x20) != 0; }
[[nodiscard]] bool keeps_f16_f64_denormals(const WaveContext& wave) noexcept { return (wave.mode & 0x80) != 0; }

constexpr float k_omod_factor[4] = {1.0F, 2.0F, 4.0F, 0.5F};

// Hardware ignores omod where results keep denormals or follow IEEE rules; where it applies, -0 becomes +0.
template <class T>
[[nodiscard]] T scaled(T value, T factor) noexcept {
  const T product = value * factor;
  return product == 0 ? T{0} : product;
}
template <class T>
[[nodiscard]] T clamped(T value, bool nan_to_zero) noexcept {
  if (value != value) return nan_to_zero ? T{0} : value;
  return value > 0 ? (value < 1 ? value : T{1}) : T{0};
}

template <class T, class Load, class Store>
void finish(const WaveContext& wave, const Instruction& instruction, bool keeps_denormals, Load load, Store store) {
  if (instruction.omod != 0 && !keeps_denormals && (wave.mode & k_mode_ieee) == 0) {
    const T factor = k_omod_factor[instruction.omod & 3];
    for (unsigned i = 0; i < k_lanes; ++i) store(i, scaled<T>(load(i), factor));
  }
  if (instruction.clamp) {
    const bool nan_to_zero = (wave.mode & k_mode_dx10_clamp) != 0;
    for (unsigned i = 0; i < k_lanes; ++i) store(i, clamped<T>(load(i), nan_to_zero));
  }
}

template <class T>
const T* with_sign(const Instruction& instruction, unsigned i, const T* values, T* buffer, T sign) noexcept {
  const bool abs = ((instruction.abs >> i) & 1) != 0, neg = ((instruction.neg >> i) & 1) != 0;
  if (!abs && !neg) return values;
  const T keep = abs ? static_cast<T>(~sign) : static_cast<T>(~T{0}), flip = neg ? sign : T{0};
  for (unsigned lane = 0; lane < k_lanes; ++lane) buffer[lane] = (values[lane] & keep) ^ flip;
  return buffer;
}

}  // namespace

const Row* modified_source(WaveContext& wave, const Instruction& instruction, unsigned i, bool half_register) noexcept {
  const Row* rows = wave.source_row(instruction, i);
  Row* out = &wave.worker->scratch[k_first_scratch + 2 * i];
  switch (instruction.variant) {
    case Variant::sdwa:
      if (i > 1) return rows;
      if (instruction.sdwa.src_select[i] < 6) {
        select_field(rows[0], k_sdwa_field[instruction.sdwa.src_select[i]], instruction.sdwa.sign_extend[i], *out);
        return out;
      }
      return rows;
    case Variant::dpp:
    case Variant::dpp8:
      if (i != 0) return rows;
      for (unsigned d = 0; d < std::max<unsigned>(instruction.src[0].dwords, 1) && d < 2; ++d) {
        permute_lanes(wave, instruction, rows[d], out[d]);
      }
      return out;
    case Variant::plain: break;
  }
  if (half_register && ((instruction.op_sel >> i) & 1) != 0) {
    select_field(rows[0], {16, 16}, false, *out);
    return out;
  }
  return rows;
}

std::uint64_t write_mask(const WaveContext& wave, const Instruction& instruction) noexcept {
  const bool permutes = instruction.variant == Variant::dpp || instruction.variant == Variant::dpp8;
  return permutes ? active_lanes(wave) & dpp_write_mask(wave, instruction) : active_lanes(wave);
}

const std::uint32_t* signed_source(const Instruction& instruction, unsigned i, const std::uint32_t* values,
                                   Row& buffer) noexcept {
  return with_sign(instruction, i, values, buffer.lane, std::uint32_t{1} << 31);
}
const std::uint64_t* signed_source(const Instruction& instruction, unsigned i, const std::uint64_t* values,
                                   Lanes<std::uint64_t>& buffer) noexcept {
  return with_sign(instruction, i, values, buffer.lane, std::uint64_t{1} << 63);
}
const float* signed_source(const Instruction& instruction, unsigned i, const float* values,
                           Lanes<float>& buffer) noexcept {
  const bool abs = ((instruction.abs >> i) & 1) != 0, neg = ((instruction.neg >> i) & 1) != 0;
  if (!abs && !neg) return values;
  for (unsigned lane = 0; lane < k_lanes; ++lane) {
    const float magnitude = abs ? std::fabs(values[lane]) : values[lane];
    buffer.lane[lane] = neg ? -magnitude : magnitude;
  }
  return buffer.lane;
}

void finish_result(const WaveContext& wave, const Instruction& instruction, Row& f32) noexcept {
  finish<float>(wave, instruction, keeps_f32_denormals(wave), [&](unsigned i) { return std::bit_cast<float>(f32.lane[i]); },
                [&](unsigned i, float value) { f32.lane[i] = std::bit_cast<std::uint32_t>(value); });
}
void finish_result(const WaveContext& wave, const Instruction& instruction, Lanes<std::uint64_t>& f64) noexcept {
  finish<double>(wave, instruction, keeps_f16_f64_denormals(wave),
                 [&](unsigned i) { return std::bit_cast<double>(f64.lane[i]); },
                 [&](unsigned i, double value) { f64.lane[i] = std::bit_cast<std::uint64_t>(value); });
}
void finish_result(const WaveContext& wave, const Instruction& instruction, Lanes<float>& f16) noexcept {
  finish<float>(wave, instruction, keeps_f16_f64_denormals(wave), [&](unsigned i) { return f16.lane[i]; },
                [&](unsigned i, float value) { f16.lane[i] = value; });
}

bool f16_mode_is_default(const WaveContext& wave) noexcept {
  return wave.float_mode_is_default && (wave.mode & k_mode_fp16_overflow) == 0;
}

namespace {
constexpr float k_f16_min_normal = 0x1p-14F;
constexpr float k_f16_max = 65504.0F;

void flush_f16(Lanes<float>& values) noexcept {
  for (float& value : values.lane) value = std::fabs(value) < k_f16_min_normal ? std::copysign(0.0F, value) : value;
}
}  // namespace

void flush_f16_sources(const WaveContext& wave, Lanes<float>& values) noexcept {
  if ((wave.mode & 0x40) == 0) flush_f16(values);
}
void flush_f16_results(const WaveContext& wave, Lanes<float>& values) noexcept {
  if ((wave.mode & k_mode_fp16_overflow) != 0) {
    for (float& value : values.lane) {
      const float magnitude = std::fabs(value);
      if (magnitude > k_f16_max && magnitude <= 0x1.fffffep127F) value = std::copysign(k_f16_max, value);
    }
  }
  if (!keeps_f16_f64_denormals(wave)) flush_f16(values);
}

void commit_modified(WaveContext& wave, const Instruction& instruction, Row* result, unsigned count,
                     bool half_register, HighHalf high) noexcept {
  Row* to = wave.destination_row(instruction.dst);
  if (instruction.variant == Variant::sdwa) {
    const unsigned select = instruction.sdwa.dst_select;
    if (select < 6) {
      place_field(*to, k_sdwa_field[select], instruction.sdwa.dst_unused, *result);
    } else if (half_register && keeps_high_half(wave, high)) {
      place_field(*to, {0, 16}, 2, *result);
    }
  } else if (half_register) {
    if ((instruction.op_sel & 8) != 0) {
      place_field(*to, {16, 16}, 2, *result);
    } else if (keeps_high_half(wave, high)) {
      place_field(*to, {0, 16}, 2, *result);
    }
  }
  Row mask;
  expand_mask(write_mask(wave, instruction), mask);
  for (unsigned d = 0; d < count; ++d) blend_row(to[d], result[d], mask);
}

void commit_plain(WaveContext& wave, const Instruction& instruction, const Row* result, unsigned count) noexcept {
  Row* to = wave.destination_row(instruction.dst);
  if (all_lanes_active(wave)) {
    for (unsigned d = 0; d < count; ++d) std::copy_n(result[d].lane, k_lanes, to[d].lane);
    return;
  }
  const Row& mask = wave.exec_row();
  for (unsigned d = 0; d < count; ++d) blend_row(to[d], result[d], mask);
}

void commit_half(WaveContext& wave, const Instruction& instruction, Row& result, HighHalf high) noexcept {
  if (keeps_high_half(wave, high)) place_field(*wave.destination_row(instruction.dst), {0, 16}, 2, result);
  commit_plain(wave, instruction, &result, 1);
}

}  // namespace kerncap::softgpu
