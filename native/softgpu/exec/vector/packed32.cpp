// Packed f32 of gfx90a and gfx942: two floats in a pair of registers.
#include <cmath>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using u32 = std::uint32_t;

// The row of source i that goes into the low or the high result. A constant or scalar that fills one dword only is
// broadcast by source_row() like any other; the decoder gives such operands the dwords that they have.
[[nodiscard]] const Row& half_of(const Instruction& instruction, const Row* rows, unsigned i, bool high_result) noexcept {
  const unsigned select = high_result ? instruction.op_sel_hi : instruction.op_sel;
  return rows[((select >> i) & 1) != 0 ? 1 : 0];
}

template <auto k_function, std::size_t... k_index>
void run_half(const Instruction& instruction, const Row* const* rows, bool high_result, Row& result,
              std::index_sequence<k_index...>) noexcept {
  Row negated[sizeof...(k_index)];
  const unsigned negate = high_result ? instruction.neg_hi : instruction.neg;
  const auto source = [&](unsigned i) -> const u32* {
    const Row& row = half_of(instruction, rows[i], i, high_result);
    if (((negate >> i) & 1) == 0) return row.lane;
    for (unsigned lane = 0; lane < k_lanes; ++lane) negated[i].lane[lane] = row.lane[lane] ^ 0x80000000U;
    return negated[i].lane;
  };
  run_lanes<k_function, float, std::enable_if_t<k_index != ~std::size_t{0}, float>...>(result.lane, source(k_index)...);
}

template <auto k_function>
Flow packed32(WaveContext& wave, const Instruction& instruction) noexcept {
  constexpr std::size_t k_count = std::tuple_size_v<typename SignatureOf<k_function>::Sources>;
  const FloatModeScope scope(wave, FloatWidth::f32);
  const Row* rows[k_count];
  for (unsigned i = 0; i < k_count; ++i) rows[i] = wave.source_row(instruction, i);
  Row result[2];
  for (unsigned h = 0; h < 2; ++h) {
    run_half<k_function>(instruction, rows, h == 1, result[h], std::make_index_sequence<k_count>{});
    if (instruction.clamp) finish_result(wave, instruction, result[h]);
  }
  commit_plain(wave, instruction, result, 2);
  return Flow::next;
}
template <auto k_function>
Handler make(Target target, Instruction& instruction) {
  return form_is_supported(target, instruction) ? packed32<k_function> : nullptr;
}

// The low dword of the result is half of the first source, the high one half of the second.
Flow move_pair(WaveContext& wave, const Instruction& instruction) noexcept {
  const Row* a = wave.source_row(instruction, 0);
  const Row* b = wave.source_row(instruction, 1);
  const Row result[2] = {half_of(instruction, a, 0, false), half_of(instruction, b, 1, false)};
  commit_plain(wave, instruction, result, 2);
  return Flow::next;
}
Handler make_move_pair(Target target, Instruction& instruction) {
  return form_is_supported(target, instruction) ? move_pair : nullptr;
}

}  // namespace

void register_packed32(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_pk_fma_f32", make<[](float a, float b, float c) { return std::fma(a, b, c); }>},
      {"v_pk_mul_f32", make<[](float a, float b) { return a * b; }>},
      {"v_pk_add_f32", make<[](float a, float b) { return a + b; }>},
      {"v_pk_mov_b32", make_move_pair},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
