// v_fma_mix: an f32 fused multiply-add whose sources are f32 registers or halves of them.
#include <algorithm>
#include <cmath>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/half.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using u32 = std::uint32_t;

constexpr unsigned k_first_float_constant = 240, k_last_float_constant = 248;

// op_sel_hi makes source i a half, op_sel says which one. neg_hi is abs here.
const u32* mixed_source(WaveContext& wave, const Instruction& instruction, unsigned i, Row& buffer) noexcept {
  const Operand& operand = instruction.src[i];
  const u32* values = wave.source_row(instruction, i)->lane;
  if (((instruction.op_sel_hi >> i) & 1) != 0) {
    const unsigned shift = ((instruction.op_sel >> i) & 1) != 0 ? 16 : 0;
    // The decoder expands float constants to f32, as most sources want them; a half source means the half constant.
    const bool is_float_constant =
        operand.encoding >= k_first_float_constant && operand.encoding <= k_last_float_constant;
    Row halves;
    for (unsigned lane = 0; lane < k_lanes; ++lane) halves.lane[lane] = values[lane] >> shift;
    if (is_float_constant) {
      std::fill_n(halves.lane, k_lanes, u32{float_to_half(std::bit_cast<float>(values[0]))} >> shift);
    }
    Lanes<float> floats;
    halves_to_floats(halves, floats);
    if (!f16_mode_is_default(wave)) [[unlikely]] flush_f16_sources(wave, floats);
    for (unsigned lane = 0; lane < k_lanes; ++lane) buffer.lane[lane] = std::bit_cast<u32>(floats.lane[lane]);
    values = buffer.lane;
  }
  const u32 keep = ((instruction.neg_hi >> i) & 1) != 0 ? 0x7FFFFFFFU : ~0U;
  const u32 flip = ((instruction.neg >> i) & 1) != 0 ? 0x80000000U : 0U;
  if (keep != ~0U || flip != 0) {
    for (unsigned lane = 0; lane < k_lanes; ++lane) buffer.lane[lane] = (values[lane] & keep) ^ flip;
    values = buffer.lane;
  }
  return values;
}

constexpr auto k_fma = [](float a, float b, float c) { return std::fma(a, b, c); };

void multiply_add(WaveContext& wave, const Instruction& instruction, Row& result) noexcept {
  Row buffers[3];
  const u32* sources[3];
  for (unsigned i = 0; i < 3; ++i) sources[i] = mixed_source(wave, instruction, i, buffers[i]);
  const FloatModeScope scope(wave, FloatWidth::f32);
  run_lanes<k_fma, float, float, float, float>(result.lane, sources[0], sources[1], sources[2]);
}

Flow mix32(WaveContext& wave, const Instruction& instruction) noexcept {
  Row result;
  multiply_add(wave, instruction, result);
  if (instruction.clamp) finish_result(wave, instruction, result);
  commit_plain(wave, instruction, &result, 1);
  return Flow::next;
}

// Rounds the sum to f32 and then to f16, into one half; the other half stays.
template <bool k_high>
Flow mix16(WaveContext& wave, const Instruction& instruction) noexcept {
  Row sum, result;
  multiply_add(wave, instruction, sum);
  Lanes<float> floats;
  for (unsigned lane = 0; lane < k_lanes; ++lane) floats.lane[lane] = std::bit_cast<float>(sum.lane[lane]);
  {
    const FloatModeScope scope(wave, FloatWidth::f16_f64);
    if (instruction.clamp) finish_result(wave, instruction, floats);
    if (!f16_mode_is_default(wave)) [[unlikely]] flush_f16_results(wave, floats);
    floats_to_halves(floats, result);
  }
  const Row& old = *wave.destination_row(instruction.dst);
  for (unsigned lane = 0; lane < k_lanes; ++lane) {
    result.lane[lane] = k_high ? (old.lane[lane] & 0xFFFF) | (result.lane[lane] << 16)
                               : (old.lane[lane] & 0xFFFF0000U) | result.lane[lane];
  }
  commit_plain(wave, instruction, &result, 1);
  return Flow::next;
}

template <Handler k_handler>
Handler make(Target target, Instruction& instruction) {
  return form_is_supported(target, instruction) ? k_handler : nullptr;
}

}  // namespace

void register_mix(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_fma_mix_f32", make<mix32>},
      {"v_fma_mixlo_f16", make<mix16<false>>},
      {"v_fma_mixhi_f16", make<mix16<true>>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
