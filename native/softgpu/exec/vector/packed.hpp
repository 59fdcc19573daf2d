// Packed instructions: one function on each half of the registers, the halves chosen for each source and half.
#pragma once

#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu {

inline constexpr unsigned k_source_count = 3;

// One half of source i: op_sel picks it for the low result, op_sel_hi for the high one; likewise neg and neg_hi.
template <class T>
[[nodiscard]] inline const Storage<T>* load_half(WaveContext& wave, const Instruction& instruction, unsigned i,
                                                 bool high_result, Lanes<Storage<T>>& buffer) noexcept {
  const unsigned select = high_result ? instruction.op_sel_hi : instruction.op_sel;
  const Row& row = *wave.source_row(instruction, i);
  Row shifted;
  const Row* half = &row;
  if (((select >> i) & 1) != 0) {
    for (unsigned lane = 0; lane < k_lanes; ++lane) shifted.lane[lane] = row.lane[lane] >> 16;
    half = &shifted;
  }
  if constexpr (k_is_half<T>) {
    unpack_halves<T>(*half, buffer);
    if (!f16_mode_is_default(wave)) [[unlikely]] flush_f16_sources(wave, buffer);
    const unsigned negate = high_result ? instruction.neg_hi : instruction.neg;
    if (((negate >> i) & 1) != 0) {
      for (float& value : buffer.lane) value = -value;
    }
  } else {
    narrow_row(*half, buffer);
  }
  return buffer.lane;
}

// Two rows of 16-bit results into one register.
inline void commit_halves(WaveContext& wave, const Instruction& instruction, const Row& low, const Row& high) noexcept {
  Row packed;
  for (unsigned i = 0; i < k_lanes; ++i) packed.lane[i] = (low.lane[i] & 0xFFFF) | (high.lane[i] << 16);
  commit_plain(wave, instruction, &packed, 1);
}

template <auto k_function, class R, class... A, std::size_t... k_index>
inline void run_packed(WaveContext& wave, const Instruction& instruction, std::tuple<A...>*,
                       std::index_sequence<k_index...>) noexcept {
  Row halves[2];
  for (unsigned h = 0; h < 2; ++h) {
    std::tuple<Lanes<Storage<A>>...> buffers;
    Lanes<Storage<R>> result;
    run_lanes<k_function, R, A...>(result.lane,
                                   load_half<A>(wave, instruction, k_index, h == 1, std::get<k_index>(buffers))...);
    if constexpr (k_is_half<R>) {
      if (instruction.clamp) finish_result(wave, instruction, result);
      if (!f16_mode_is_default(wave)) [[unlikely]] flush_f16_results(wave, result);
      floats_to_halves(result, halves[h]);
    } else {
      widen_lanes(result, halves[h]);
    }
  }
  commit_halves(wave, instruction, halves[0], halves[1]);
}

template <auto k_function>
Flow packed_handler(WaveContext& wave, const Instruction& instruction) noexcept {
  using S = SignatureOf<k_function>;
  using Sources = typename S::Sources;
  const auto run = [&] {
    run_packed<k_function, typename S::Result>(wave, instruction, static_cast<Sources*>(nullptr),
                                               std::make_index_sequence<std::tuple_size_v<Sources>>{});
  };
  if constexpr (S::k_any_float) {
    const FloatModeScope scope(wave, FloatWidth::f16_f64);
    run();
  } else {
    run();
  }
  return Flow::next;
}

// k_saturating: the function to use with clamp; the same one where clamp is handled as for floats.
template <auto k_function, auto k_saturating>
Handler packed(Target target, Instruction& instruction) {
  if (!form_is_supported(target, instruction)) return nullptr;
  return instruction.clamp ? packed_handler<k_saturating> : packed_handler<k_function>;
}
template <auto k_function>
Handler packed(Target target, Instruction& instruction) {
  constexpr bool k_float = k_is_half<typename SignatureOf<k_function>::Result>;
  if (!k_float && instruction.clamp) return nullptr;
  return form_is_supported(target, instruction) ? packed_handler<k_function> : nullptr;
}

}  // namespace kerncap::softgpu
