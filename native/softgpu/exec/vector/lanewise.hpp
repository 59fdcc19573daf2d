// Turns a function of one lane's elements into the handler of an instruction: reads the sources, runs the function over
// all lanes in a loop that vectorises, and writes the result where EXEC lets it.
//
//   {"v_add_f32", lanewise<[](float a, float b) { return a + b; }>}
//
// The element types of the function say how many registers each operand fills, how modifiers apply and which of the
// wave's float modes counts. Inactive lanes are computed too, so the function must be defined for every bit pattern.
#pragma once

#include <cstddef>
#include <tuple>
#include <utility>

#include "softgpu/exec/float_mode.hpp"
#include "softgpu/exec/handler_table.hpp"
#include "softgpu/exec/vector/element.hpp"
#include "softgpu/exec/vector/modifiers.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

struct LaneOptions {
  HighHalf high = HighHalf::clear;
  bool clamp_is_harmless = false;  // an integer result that cannot leave its range
  // Rounding and denormal modes do not apply: moves, and the approximations of the transcendental unit.
  bool ignores_float_mode = false;
};

template <class Function>
struct Signature;
template <class Class, class R, class... A>
struct Signature<R (Class::*)(A...) const> {
  using Result = R;
  using Sources = std::tuple<A...>;
  static constexpr bool k_any_float = ElementTraits<R>::k_float || (ElementTraits<A>::k_float || ...);
  // The result's type decides the mode; an integer result leaves it to the first source.
  using Deciding = std::conditional_t<ElementTraits<R>::k_float, R, std::tuple_element_t<0, Sources>>;
  static constexpr FloatWidth k_width = std::is_same_v<Deciding, float> ? FloatWidth::f32 : FloatWidth::f16_f64;
};
template <auto k_function>
using SignatureOf = Signature<decltype(&decltype(k_function)::operator())>;

template <class T>
inline void unpack_halves(const Row& row, Lanes<float>& out) noexcept {
  if constexpr (std::is_same_v<T, OrderedHalf>) {
    halves_to_ordered_floats(row, out);
  } else {
    halves_to_floats(row, out);
  }
}

// A source as the array that the lane loop reads: the registers themselves where the storage is 32 bits wide.
template <class T, bool k_plain>
[[nodiscard]] inline const Storage<T>* load_source(WaveContext& wave, const Instruction& instruction, unsigned i,
                                                   Lanes<Storage<T>>& buffer) noexcept {
  const Row* rows = k_plain ? wave.source_row(instruction, i)
                            : modified_source(wave, instruction, i, ElementTraits<T>::k_half_register);
  const Storage<T>* values = buffer.lane;
  if constexpr (k_is_half<T>) {
    unpack_halves<T>(*rows, buffer);
    if (!f16_mode_is_default(wave)) [[unlikely]] flush_f16_sources(wave, buffer);
  } else if constexpr (ElementTraits<T>::k_half_register) {
    narrow_row(*rows, buffer);
  } else if constexpr (ElementTraits<T>::k_dwords == 2) {
    join_rows(rows, buffer);
  } else {
    values = rows->lane;
  }
  if constexpr (!k_plain && ElementTraits<T>::k_float) {
    if constexpr (std::is_same_v<T, float>) {
      values = signed_source(instruction, i, values, static_cast<Row&>(buffer));
    } else {
      values = signed_source(instruction, i, values, buffer);
    }
  }
  return values;
}

template <class T, bool k_plain, HighHalf k_high>
inline void store_result(WaveContext& wave, const Instruction& instruction, Lanes<Storage<T>>& values) noexcept {
  if constexpr (ElementTraits<T>::k_dwords == 2 && k_plain) {
    if (all_lanes_active(wave)) [[likely]] {
      split_lanes(values, wave.destination_row(instruction.dst));
      return;
    }
  }
  Row rows[2];
  Row* result = rows;
  if constexpr (ElementTraits<T>::k_dwords == 1 && !ElementTraits<T>::k_half_register) {
    result = &values;
  }
  if constexpr (ElementTraits<T>::k_float && !k_plain) {
    if constexpr (std::is_same_v<T, float>) {
      finish_result(wave, instruction, *result);
    } else {
      finish_result(wave, instruction, values);
    }
  }
  if constexpr (k_is_half<T>) {
    if (!f16_mode_is_default(wave)) [[unlikely]] flush_f16_results(wave, values);
    floats_to_halves(values, rows[0]);
  } else if constexpr (ElementTraits<T>::k_half_register) {
    widen_lanes(values, rows[0]);
  } else if constexpr (ElementTraits<T>::k_dwords == 2) {
    split_lanes(values, rows);
  }
  constexpr unsigned k_count = ElementTraits<T>::k_dwords;
  if constexpr (!k_plain) {
    commit_modified(wave, instruction, result, k_count, ElementTraits<T>::k_half_register, k_high);
  } else if constexpr (ElementTraits<T>::k_half_register) {
    commit_half(wave, instruction, *result, k_high);
  } else {
    commit_plain(wave, instruction, result, k_count);
  }
}

template <auto k_function, class R, class... A>
[[gnu::noinline]] void run_lanes(Storage<R>* result, const Storage<A>*... sources) noexcept {
  // The result may be one of the sources, lane for lane: no other overlap occurs.
#pragma GCC ivdep
  for (unsigned i = 0; i < k_lanes; ++i) {
    result[i] = to_storage<R>(k_function(from_storage<A>(sources[i])...));
  }
}

template <auto k_function, bool k_plain, HighHalf k_high, class R, class... A, std::size_t... k_index>
inline void run_handler(WaveContext& wave, const Instruction& instruction, std::tuple<A...>*,
                        std::index_sequence<k_index...>) noexcept {
  std::tuple<Lanes<Storage<A>>...> buffers;
  constexpr bool k_in_place = k_plain && ElementTraits<R>::k_dwords == 1 && !ElementTraits<R>::k_half_register;
  if constexpr (k_in_place) {
    if (all_lanes_active(wave)) [[likely]] {
      run_lanes<k_function, R, A...>(wave.destination_row(instruction.dst)->lane,
                                     load_source<A, k_plain>(wave, instruction, k_index, std::get<k_index>(buffers))...);
      return;
    }
  }
  Lanes<Storage<R>> result;
  run_lanes<k_function, R, A...>(
      result.lane, load_source<A, k_plain>(wave, instruction, k_index, std::get<k_index>(buffers))...);
  store_result<R, k_plain, k_high>(wave, instruction, result);
}

template <auto k_function, bool k_plain, LaneOptions k_options>
Flow lanewise_handler(WaveContext& wave, const Instruction& instruction) noexcept {
  using S = SignatureOf<k_function>;
  using Sources = typename S::Sources;
  const auto run = [&] {
    run_handler<k_function, k_plain, k_options.high, typename S::Result>(
        wave, instruction, static_cast<Sources*>(nullptr), std::make_index_sequence<std::tuple_size_v<Sources>>{});
  };
  if constexpr (S::k_any_float && !k_options.ignores_float_mode) {
    const FloatModeScope scope(wave, S::k_width);
    run();
  } else {
    run();
  }
  return Flow::next;
}

// False for a form that no handler of this folder can execute.
[[nodiscard]] bool form_is_supported(Target target, const Instruction& instruction) noexcept;

// clamp on an integer result is a different function: see saturating<>.
template <auto k_function, LaneOptions k_options = LaneOptions{}>
Handler lanewise(Target target, Instruction& instruction) {
  if (!form_is_supported(target, instruction)) return nullptr;
  if constexpr (!ElementTraits<typename SignatureOf<k_function>::Result>::k_float && !k_options.clamp_is_harmless) {
    if (instruction.clamp) return nullptr;
  }
  return is_plain(instruction) ? lanewise_handler<k_function, true, k_options>
                               : lanewise_handler<k_function, false, k_options>;
}

template <auto k_function, auto k_saturating, LaneOptions k_options = LaneOptions{}>
Handler saturating(Target target, Instruction& instruction) {
  constexpr LaneOptions k_saturated{k_options.high, true, k_options.ignores_float_mode};
  return instruction.clamp ? lanewise<k_saturating, k_saturated>(target, instruction)
                           : lanewise<k_function, k_options>(target, instruction);
}

}  // namespace kerncap::softgpu
