// Comparisons: a condition for each lane becomes a bit of a scalar register, zero for inactive lanes; v_cmpx also makes
// it the new EXEC.
#pragma once

#include "softgpu/exec/vector/lanewise.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

template <auto k_condition, class A, class B>
[[nodiscard, gnu::noinline]] std::uint64_t compare_lanes(const Storage<A>* a, const Storage<B>* b) noexcept {
  Lanes<std::uint8_t> flags;
  for (unsigned i = 0; i < k_lanes; ++i) {
    flags.lane[i] = k_condition(from_storage<A>(a[i]), from_storage<B>(b[i])) ? 0xFF : 0;
  }
  return gather_mask(flags);
}

inline void write_lane_mask(WaveContext& wave, unsigned index, std::uint64_t mask) noexcept {
  if constexpr (k_lanes == 64) {
    wave.set_sgpr64(index, mask);
  } else {
    wave.sgpr[index] = static_cast<std::uint32_t>(mask);
  }
}

// k_invert: the opposite condition, so that one loop serves two opcodes.
template <auto k_condition, bool k_invert, bool k_exec, bool k_plain>
Flow compare_handler(WaveContext& wave, const Instruction& instruction) noexcept {
  using Sources = typename SignatureOf<k_condition>::Sources;
  using A = std::tuple_element_t<0, Sources>;
  using B = std::tuple_element_t<1, Sources>;
  constexpr bool k_float = ElementTraits<A>::k_float;
  constexpr FloatWidth k_width = std::is_same_v<A, float> ? FloatWidth::f32 : FloatWidth::f16_f64;
  Lanes<Storage<A>> a_buffer;
  Lanes<Storage<B>> b_buffer;
  std::uint64_t mask;
  if constexpr (k_float) {
    const FloatModeScope scope(wave, k_width);
    mask = compare_lanes<k_condition, A, B>(load_source<A, k_plain>(wave, instruction, 0, a_buffer),
                                            load_source<B, k_plain>(wave, instruction, 1, b_buffer));
  } else {
    mask = compare_lanes<k_condition, A, B>(load_source<A, k_plain>(wave, instruction, 0, a_buffer),
                                            load_source<B, k_plain>(wave, instruction, 1, b_buffer));
  }
  if constexpr (k_invert) mask = ~mask;
  mask &= k_plain ? active_lanes(wave) : write_mask(wave, instruction);
  // RDNA's v_cmpx has no other destination than EXEC.
  if (!k_exec || !traits(wave.target).compares_to_exec_alone) write_lane_mask(wave, instruction.dst.index, mask);
  if constexpr (k_exec) wave.set_exec(mask);
  return Flow::next;
}

// VOP3's clamp asks for signaling, which has no effect where no exception is taken.
template <auto k_condition, bool k_invert, bool k_exec>
Handler compare(Target target, Instruction& instruction) {
  if (!form_is_supported(target, instruction)) return nullptr;
  instruction.clamp = false;
  return is_plain(instruction) ? compare_handler<k_condition, k_invert, k_exec, true>
                               : compare_handler<k_condition, k_invert, k_exec, false>;
}

}  // namespace kerncap::softgpu
