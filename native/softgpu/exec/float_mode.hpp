// The wave's rounding and denormal modes, applied to the host's MXCSR around one instruction. Costs one predictable
// branch in the default mode.
#pragma once

#include <immintrin.h>

#include "softgpu/exec/wave.hpp"

namespace kerncap::softgpu {

// f16 and f64 share one pair of mode fields, f32 has the other.
enum class FloatWidth : std::uint8_t { f32, f16_f64 };

class FloatModeScope {
 public:
  FloatModeScope(const WaveContext& wave, FloatWidth width) noexcept : m_changed(!wave.float_mode_is_default) {
    if (m_changed) [[unlikely]] enter(wave.mode, width);
  }
  ~FloatModeScope() {
    if (m_changed) [[unlikely]] set_mxcsr(m_saved);
  }
  FloatModeScope(const FloatModeScope&) = delete;
  FloatModeScope& operator=(const FloatModeScope&) = delete;

  // MODE's two-bit rounding field in MXCSR's order: both begin with nearest even, the rest differs.
  [[nodiscard]] static constexpr std::uint32_t mxcsr_for(std::uint32_t mode, FloatWidth width) noexcept {
    const unsigned shift = width == FloatWidth::f32 ? 0 : 2;
    const std::uint32_t round = (mode >> shift) & 3;          // 0 even, 1 +inf, 2 -inf, 3 zero
    const std::uint32_t denormal = (mode >> (4 + shift)) & 3;  // bit 0: keep sources, bit 1: keep results
    constexpr std::uint32_t k_mxcsr_round[4] = {0, 2, 1, 3};
    return 0x1F80U | (k_mxcsr_round[round] << 13) | ((denormal & 1) ? 0U : 0x40U) | ((denormal & 2) ? 0U : 0x8000U);
  }

 private:
  // The memory clobber keeps the loads and stores of the lane loop inside the scope.
  static void set_mxcsr(std::uint32_t value) noexcept { asm volatile("ldmxcsr %0" : : "m"(value) : "memory"); }
  void enter(std::uint32_t mode, FloatWidth width) noexcept {
    m_saved = _mm_getcsr();
    set_mxcsr(mxcsr_for(mode, width));
  }

  bool m_changed;
  std::uint32_t m_saved = 0;
};

}  // namespace kerncap::softgpu
