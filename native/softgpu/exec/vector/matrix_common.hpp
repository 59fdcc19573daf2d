// What dense and sparse matrix instructions share.
#pragma once

#include <immintrin.h>

#include "softgpu/exec/vector/matrix_kernel.hpp"
#include "softgpu/exec/vector/matrix_load.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

// gfx90a's f16 and bf16 matrix instructions flush denormal inputs and results; all others keep them. None looks at the
// wave's MODE: they round to nearest even.
class MatrixFlushScope {
 public:
  explicit MatrixFlushScope(bool flush) noexcept : m_flush(flush) {
    if (m_flush) set(k_default | k_flush_bits);
  }
  ~MatrixFlushScope() {
    if (m_flush) set(k_default);
  }
  MatrixFlushScope(const MatrixFlushScope&) = delete;
  MatrixFlushScope& operator=(const MatrixFlushScope&) = delete;

 private:
  static constexpr std::uint32_t k_default = 0x1F80, k_flush_bits = 0x8040;
  // The memory clobber keeps the loads and stores of the loops inside the scope.
  static void set(std::uint32_t value) noexcept { asm volatile("ldmxcsr %0" : : "m"(value) : "memory"); }
  bool m_flush;
};

[[nodiscard]] constexpr bool flushes(Target target, MatrixType type) noexcept {
  return traits(target).matrix16_flushes_denormals && (type == MatrixType::f16 || type == MatrixType::bf16);
}

[[nodiscard]] inline Addend addend_of(WaveContext& wave, const Instruction& instruction) noexcept {
  return {wave.source_row(instruction, 2), instruction.src[2].kind == OperandKind::constant};
}

// Registers for the operands; a scalar has no place in a matrix.
[[nodiscard]] inline bool matrix_operands_fit(const Instruction& instruction, bool addend_may_be_constant) noexcept {
  const auto is_register = [](const Operand& operand) {
    return operand.kind == OperandKind::vgpr || operand.kind == OperandKind::agpr;
  };
  const bool addend = is_register(instruction.src[2]) ||
                      (addend_may_be_constant && instruction.src[2].kind == OperandKind::constant);
  return is_register(instruction.dst) && is_register(instruction.src[0]) && is_register(instruction.src[1]) && addend;
}

}  // namespace kerncap::softgpu
