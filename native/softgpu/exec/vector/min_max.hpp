// Handlers of the minimum and maximum family, whose function depends on the wave's mode: whether signaling NaN win
// (IEEE), and whether denormals count as zero.
#pragma once

#include "softgpu/exec/vector/float_bits.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu {

// k_order(a, b[, c]) for f32 and f64, as a generic lambda over <bool k_ieee>: see min_max.cpp.
template <auto k_ieee, auto k_quiet, auto k_ieee_flushing, auto k_quiet_flushing, bool k_plain, LaneOptions k_options>
Flow ordered_handler(WaveContext& wave, const Instruction& instruction) noexcept {
  constexpr LaneOptions k_exact{k_options.high, false, true};  // no arithmetic: MXCSR does not matter
  const bool ieee = (wave.mode & k_mode_ieee) != 0;
  if (wave.float_mode_is_default) [[likely]] {
    return ieee ? lanewise_handler<k_ieee, k_plain, k_exact>(wave, instruction)
                : lanewise_handler<k_quiet, k_plain, k_exact>(wave, instruction);
  }
  constexpr unsigned k_keep_shift = SignatureOf<k_ieee>::k_width == FloatWidth::f32 ? 4 : 6;
  if (((wave.mode >> k_keep_shift) & 3) == 3) {
    return ieee ? lanewise_handler<k_ieee, k_plain, k_exact>(wave, instruction)
                : lanewise_handler<k_quiet, k_plain, k_exact>(wave, instruction);
  }
  return ieee ? lanewise_handler<k_ieee_flushing, k_plain, k_exact>(wave, instruction)
              : lanewise_handler<k_quiet_flushing, k_plain, k_exact>(wave, instruction);
}

template <auto k_ieee, auto k_quiet, auto k_ieee_flushing, auto k_quiet_flushing, LaneOptions k_options = LaneOptions{}>
Handler ordered(Target target, Instruction& instruction) {
  if (!form_is_supported(target, instruction)) return nullptr;
  return is_plain(instruction)
             ? ordered_handler<k_ieee, k_quiet, k_ieee_flushing, k_quiet_flushing, true, k_options>
             : ordered_handler<k_ieee, k_quiet, k_ieee_flushing, k_quiet_flushing, false, k_options>;
}

}  // namespace kerncap::softgpu
