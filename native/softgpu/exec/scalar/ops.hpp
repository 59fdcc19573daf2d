// The frame of scalar handlers: an operation is a function of values; reading operands, writing the result and SCC is
// done here, once.
#pragma once

#include <cstdint>

#include "softgpu/exec/handler_table.hpp"
#include "softgpu/exec/wave.hpp"

namespace kerncap::softgpu::scalar {

// A result that also sets SCC. Operations that leave SCC alone return the bare value.
template <typename T>
struct WithScc {
  T value;
  bool scc;
};

// Most operations set SCC when the result is not zero.
template <typename T>
[[nodiscard]] constexpr WithScc<T> nonzero(T value) noexcept {
  return {value, value != 0};
}

template <typename T>
[[nodiscard]] T read(const WaveContext& wave, const Operand& operand) noexcept {
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(wave.scalar64(operand));
  } else {
    return static_cast<T>(wave.scalar32(operand));
  }
}

inline void write(WaveContext& wave, const Operand& operand, std::uint32_t value) noexcept { wave.sgpr[operand.index] = value; }
inline void write(WaveContext& wave, const Operand& operand, std::int32_t value) noexcept {
  wave.sgpr[operand.index] = static_cast<std::uint32_t>(value);
}
inline void write(WaveContext& wave, const Operand& operand, std::uint64_t value) noexcept { wave.set_sgpr64(operand.index, value); }
inline void write(WaveContext& wave, const Operand& operand, std::int64_t value) noexcept {
  wave.set_sgpr64(operand.index, static_cast<std::uint64_t>(value));
}
template <typename T>
void write(WaveContext& wave, const Operand& operand, WithScc<T> result) noexcept {
  write(wave, operand, result.value);
  wave.scc = result.scc;
}

// k_operation(a, b), a of type A and b of type B.
template <typename A, typename B, auto k_operation>
Flow binary(WaveContext& wave, const Instruction& instruction) noexcept {
  write(wave, instruction.dst, k_operation(read<A>(wave, instruction.src[0]), read<B>(wave, instruction.src[1])));
  return Flow::next;
}

template <typename A, auto k_operation>
Flow unary(WaveContext& wave, const Instruction& instruction) noexcept {
  write(wave, instruction.dst, k_operation(read<A>(wave, instruction.src[0])));
  return Flow::next;
}

// SCC = k_operation(a, b); no destination.
template <typename A, typename B, auto k_operation>
Flow compare(WaveContext& wave, const Instruction& instruction) noexcept {
  wave.scc = k_operation(read<A>(wave, instruction.src[0]), read<B>(wave, instruction.src[1]));
  return Flow::next;
}

void register_arithmetic(HandlerTable& table);
void register_logic(HandlerTable& table);
void register_bits(HandlerTable& table);
void register_compare(HandlerTable& table);
void register_immediate(HandlerTable& table);
void register_exec_mask(HandlerTable& table);
void register_register_index(HandlerTable& table);
void register_branch(HandlerTable& table);
void register_control(HandlerTable& table);
void register_hardware_registers(HandlerTable& table);
void register_memory(HandlerTable& table);
void register_global_sync(HandlerTable& table);

}  // namespace kerncap::softgpu::scalar
