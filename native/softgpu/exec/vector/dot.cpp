// Dot products of 2, 4 or 8 small numbers in each lane, added to a 32-bit sum.
//
// v_dot2 of f16 adds one product after the other, each sum rounded to f32; hardware's own order is not published.
// gfx90a takes denormal halves, and results, for zero.
#include <cstdint>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/float_bits.hpp"
#include "softgpu/exec/vector/half.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using u32 = std::uint32_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

template <unsigned k_bits, bool k_signed>
[[nodiscard]] constexpr i64 field(u32 packed, unsigned i) noexcept {
  const u32 top = packed << (32 - k_bits * (i + 1));
  return k_signed ? static_cast<i64>(static_cast<i32>(top) >> (32 - k_bits)) : static_cast<i64>(top >> (32 - k_bits));
}

template <unsigned k_bits, bool k_signed>
constexpr auto k_dot = [](u32 a, u32 b, u32 sum) {
  i64 total = 0;
  for (unsigned i = 0; i < 32 / k_bits; ++i) total += field<k_bits, k_signed>(a, i) * field<k_bits, k_signed>(b, i);
  return static_cast<u32>(total) + sum;
};
template <unsigned k_bits, bool k_signed>
constexpr auto k_dot_saturated = [](u32 a, u32 b, u32 sum) {
  i64 total = k_signed ? i64{static_cast<i32>(sum)} : i64{sum};
  for (unsigned i = 0; i < 32 / k_bits; ++i) total += field<k_bits, k_signed>(a, i) * field<k_bits, k_signed>(b, i);
  constexpr i64 k_most = k_signed ? 0x7FFFFFFF : 0xFFFFFFFF, k_least = k_signed ? -0x80000000LL : 0;
  return static_cast<u32>(total > k_most ? k_most : (total < k_least ? k_least : total));
};

template <unsigned k_bits, bool k_signed>
constexpr HandlerFactory k_integer = saturating<k_dot<k_bits, k_signed>, k_dot_saturated<k_bits, k_signed>>;

// VOP3P: op_sel and neg work on halves, and abs does not exist. The VOP2 forms have neither.
Flow dot2_f16(WaveContext& wave, const Instruction& instruction) noexcept {
  const bool flushes = traits(wave.target).dot2_flushes_denormals;
  const bool packed = instruction.opcode->format == Format::vop3p;
  Lanes<float> halves[2][2];
  for (unsigned s = 0; s < 2; ++s) {
    const Row& row = *modified_source(wave, instruction, s, false);
    for (unsigned h = 0; h < 2; ++h) {
      const unsigned select = h == 0 ? instruction.op_sel : instruction.op_sel_hi;
      const bool high = packed ? ((select >> s) & 1) != 0 : h == 1;
      const bool negate = packed && (((h == 0 ? instruction.neg : instruction.neg_hi) >> s) & 1) != 0;
      Row shifted;
      for (unsigned i = 0; i < k_lanes; ++i) shifted.lane[i] = high ? row.lane[i] >> 16 : row.lane[i];
      halves_to_floats(shifted, halves[s][h]);
      for (float& value : halves[s][h].lane) {
        if (flushes && std::fabs(value) < 0x1p-14F) value = std::copysign(0.0F, value);
        if (negate) value = -value;
      }
    }
  }
  const FloatModeScope scope(wave, FloatWidth::f32);
  const Row& sum = *wave.source_row(instruction, 2);
  const u32 flip = packed && (instruction.neg & 4) != 0 ? 0x80000000U : 0U;
  Row result;
  for (unsigned i = 0; i < k_lanes; ++i) {
    float total = std::bit_cast<float>(sum.lane[i] ^ flip);
    total = halves[0][0].lane[i] * halves[1][0].lane[i] + (flushes ? flushed(total) : total);
    total = halves[0][1].lane[i] * halves[1][1].lane[i] + total;
    result.lane[i] = std::bit_cast<u32>(flushes ? flushed(total) : total);
  }
  if (instruction.clamp) finish_result(wave, instruction, result);
  if (packed || is_plain(instruction)) {
    commit_plain(wave, instruction, &result, 1);
  } else {
    commit_modified(wave, instruction, &result, 1, false, HighHalf::clear);
  }
  return Flow::next;
}
Handler make_dot2(Target target, Instruction& instruction) {
  return form_is_supported(target, instruction) ? dot2_f16 : nullptr;
}

// op_sel of the 16-bit integer forms, brought to the two halves where they belong. The 8- and 4-bit forms have none.
template <bool k_signed>
Flow dot2_integer(WaveContext& wave, const Instruction& instruction) noexcept {
  Row selected[2];
  for (unsigned s = 0; s < 2; ++s) {
    const Row& row = *wave.source_row(instruction, s);
    const unsigned low = ((instruction.op_sel >> s) & 1) != 0 ? 16 : 0;
    const unsigned high = ((instruction.op_sel_hi >> s) & 1) != 0 ? 16 : 0;
    for (unsigned i = 0; i < k_lanes; ++i) {
      selected[s].lane[i] = ((row.lane[i] >> low) & 0xFFFF) | (((row.lane[i] >> high) & 0xFFFF) << 16);
    }
  }
  const Row& sum = *wave.source_row(instruction, 2);
  Row result;
  if (instruction.clamp) {
    run_lanes<k_dot_saturated<16, k_signed>, u32, u32, u32, u32>(result.lane, selected[0].lane, selected[1].lane, sum.lane);
  } else {
    run_lanes<k_dot<16, k_signed>, u32, u32, u32, u32>(result.lane, selected[0].lane, selected[1].lane, sum.lane);
  }
  commit_plain(wave, instruction, &result, 1);
  return Flow::next;
}
template <bool k_signed>
Handler make_dot2_integer(Target target, Instruction& instruction) {
  return form_is_supported(target, instruction) ? dot2_integer<k_signed> : nullptr;
}
// The 8- and 4-bit VOP3P forms: their op_sel_hi is set by habit and means nothing.
template <unsigned k_bits, bool k_signed>
Handler make_dot(Target target, Instruction& instruction) {
  instruction.op_sel = 0;
  instruction.op_sel_hi = 0;
  return k_integer<k_bits, k_signed>(target, instruction);
}

}  // namespace

void register_dot(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_dot2_f32_f16", make_dot2},
      {"v_dot2c_f32_f16", make_dot2},
      {"v_dot2_i32_i16", make_dot2_integer<true>},
      {"v_dot2_u32_u16", make_dot2_integer<false>},
      {"v_dot2c_i32_i16", k_integer<16, true>},
      {"v_dot4_i32_i8", make_dot<8, true>},
      {"v_dot4_u32_u8", make_dot<8, false>},
      {"v_dot4c_i32_i8", k_integer<8, true>},
      {"v_dot8_i32_i4", make_dot<4, true>},
      {"v_dot8_u32_u4", make_dot<4, false>},
      {"v_dot8c_i32_i4", k_integer<4, true>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
