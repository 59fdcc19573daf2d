// Conversions to and from gfx942's 8-bit floats.
#include "softgpu/exec/vector/fp8.hpp"

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr u32 k_mode_fp16_overflow = 1U << 23;  // saturate instead of overflowing

template <Fp8Format k_format>
constexpr auto k_unpack = [](u32 a) { return k_fp8_values<k_format>[a & 0xFF]; };
template <Fp8Format k_format>
constexpr auto k_unpack_two = [](u32 a) {
  const auto low = std::bit_cast<u32>(k_unpack<k_format>(a)), high = std::bit_cast<u32>(k_unpack<k_format>(a >> 8));
  return low | (u64{high} << 32);
};

// Results fill half a register (op_sel 3 chooses which) or a byte (op_sel 2 and 3); the rest of it stays.
void commit_part(WaveContext& wave, const Instruction& instruction, Row& result, u32 ones, unsigned shift) noexcept {
  const Row& old = *wave.destination_row(instruction.dst);
  const u32 mask = ones << shift;
  for (unsigned i = 0; i < k_lanes; ++i) {
    result.lane[i] = ((result.lane[i] << shift) & mask) | (old.lane[i] & ~mask);
  }
  commit_plain(wave, instruction, &result, 1);
}

template <Fp8Format k_format>
Flow pack_two(WaveContext& wave, const Instruction& instruction) noexcept {
  Lanes<u32> buffers[2];
  const u32* a = load_source<float, false>(wave, instruction, 0, buffers[0]);
  const u32* b = load_source<float, false>(wave, instruction, 1, buffers[1]);
  const bool saturate = (wave.mode & k_mode_fp16_overflow) != 0;
  Row result;
  for (unsigned i = 0; i < k_lanes; ++i) {
    result.lane[i] = to_fp8<k_format>(std::bit_cast<float>(a[i]), saturate) |
                     (u32{to_fp8<k_format>(std::bit_cast<float>(b[i]), saturate)} << 8);
  }
  commit_part(wave, instruction, result, 0xFFFF, (instruction.op_sel & 8) != 0 ? 16 : 0);
  return Flow::next;
}

// The random number's top bits are the dither: as many as the mantissa loses.
template <Fp8Format k_format>
Flow pack_stochastic(WaveContext& wave, const Instruction& instruction) noexcept {
  constexpr unsigned k_lost = 23 - k_format.mantissa;
  constexpr float k_unit = 1.0F / static_cast<float>(1U << k_lost);
  Lanes<u32> buffers[2];
  const u32* value = load_source<float, false>(wave, instruction, 0, buffers[0]);
  const u32* random = load_source<u32, false>(wave, instruction, 1, buffers[1]);
  const bool saturate = (wave.mode & k_mode_fp16_overflow) != 0;
  Row result;
  for (unsigned i = 0; i < k_lanes; ++i) {
    const float dither = static_cast<float>(random[i] >> (32 - k_lost)) * k_unit;
    result.lane[i] = to_fp8<k_format>(std::bit_cast<float>(value[i]), saturate, dither);
  }
  commit_part(wave, instruction, result, 0xFF, 8 * ((instruction.op_sel >> 2) & 3U));
  return Flow::next;
}

template <Handler k_handler>
Handler make(Target target, Instruction& instruction) {
  return form_is_supported(target, instruction) && instruction.variant == Variant::plain ? k_handler : nullptr;
}

constexpr LaneOptions k_exact{.clamp_is_harmless = true, .ignores_float_mode = true};

}  // namespace

void register_fp8(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_cvt_f32_fp8", lanewise<k_unpack<k_fp8>, k_exact>},
      {"v_cvt_f32_bf8", lanewise<k_unpack<k_bf8>, k_exact>},
      {"v_cvt_pk_f32_fp8", lanewise<k_unpack_two<k_fp8>, k_exact>},
      {"v_cvt_pk_f32_bf8", lanewise<k_unpack_two<k_bf8>, k_exact>},
      {"v_cvt_pk_fp8_f32", make<pack_two<k_fp8>>},
      {"v_cvt_pk_bf8_f32", make<pack_two<k_bf8>>},
      {"v_cvt_sr_fp8_f32", make<pack_stochastic<k_fp8>>},
      {"v_cvt_sr_bf8_f32", make<pack_stochastic<k_bf8>>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
