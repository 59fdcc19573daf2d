// The state of one wave, as instruction handlers see it. Plain data: the interpreter, the dispatcher and every handler
// share it, one wave is run by one worker at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "softgpu/exec/fault.hpp"
#include "softgpu/exec/instruction.hpp"
#include "softgpu/exec/row.hpp"
#include "softgpu/exec/translation.hpp"

namespace kerncap::softgpu {

class CodeCache;
struct WorkGroup;

inline constexpr unsigned k_vcc = 106;
inline constexpr unsigned k_flat_scratch = 102;  // CDNA
inline constexpr unsigned k_exec = 126;

// Bits of the MODE register.
inline constexpr std::uint32_t k_mode_float_bits = 0xFF;     // round f32, round f16/f64, denormal f32, denormal f16/f64
inline constexpr std::uint32_t k_mode_default_float = 0xF0;  // nearest even, denormals kept: what MXCSR 0x1F80 does
inline constexpr std::uint32_t k_mode_dx10_clamp = 1U << 8;
inline constexpr std::uint32_t k_mode_ieee = 1U << 9;
inline constexpr std::uint32_t k_mode_gpr_index = 1U << 27;

// What a worker lends to the wave that it runs.
struct WorkerState {
  Translation memory;
  CodeCache* code = nullptr;
  Row scratch[16];  // for handlers: broadcast scalars, modified sources; contents do not survive the handler
};

struct WaveContext {
  // Scalar registers at their operand encodings; VCC, M0, flat_scratch, trap temporaries and EXEC are among them. The
  // slack lets a wide load be written before it is checked.
  alignas(64) std::array<std::uint32_t, 144> sgpr{};
  Row* vgpr = nullptr;  // vgpr_count rows
  Row* agpr = nullptr;  // agpr_count rows
  std::uint16_t vgpr_count = 0, agpr_count = 0, sgpr_count = 0;
  Target target = Target::gfx90a;
  std::uint8_t lanes = traits(Target::gfx90a).lanes;
  bool scc = false;
  bool float_mode_is_default = true;  // (mode & k_mode_float_bits) == k_mode_default_float; kept by set_mode()
  std::uint32_t mode = 0;
  std::uint64_t pc = 0;  // valid before the first instruction, after Flow::jump, and between time slices
  WorkGroup* group = nullptr;
  WorkerState* worker = nullptr;
  std::byte* lds = nullptr;  // the work-group's, whole allocation blocks; lds_size_bytes may be 0
  std::uint32_t lds_size_bytes = 0;
  std::uint32_t index = 0;  // within the work-group
  std::uint64_t shared_base = 0, private_base = 0;  // apertures; each spans 4 GiB
  std::uint64_t sync_ticket = 0;  // of the global barrier that the wave waits at; 1: it waits at a semaphore
  std::uint64_t scratch_base = 0;  // this wave's part of the scratch memory: what architected flat scratch reads
  std::uint32_t scratch_size_bytes_per_lane = 0;
  Fault fault;

  [[nodiscard]] std::uint64_t sgpr64(unsigned index_) const noexcept {
    std::uint64_t value;
    std::memcpy(&value, &sgpr[index_], sizeof value);
    return value;
  }
  void set_sgpr64(unsigned index_, std::uint64_t value) noexcept { std::memcpy(&sgpr[index_], &value, sizeof value); }

  [[nodiscard]] std::uint64_t exec() const noexcept { return sgpr64(k_exec); }
  [[nodiscard]] std::uint64_t vcc() const noexcept { return sgpr64(k_vcc); }
  void set_exec(std::uint64_t value) noexcept { set_sgpr64(k_exec, value); }
  // EXEC and VCC have bits of no meaning where a wave has fewer lanes than they have bits.
  [[nodiscard]] bool exec_is_zero() const noexcept { return (exec() & all_lanes_of(lanes)) == 0; }
  [[nodiscard]] bool vcc_is_zero() const noexcept { return (vcc() & all_lanes_of(lanes)) == 0; }
  [[nodiscard]] std::uint32_t m0() const noexcept { return sgpr[traits(target).m0_operand]; }

  // EXEC as a row: all ones in active lanes, else zero. Rebuilt when EXEC has changed.
  [[nodiscard]] const Row& exec_row() noexcept {
    const std::uint64_t mask = exec();
    if (mask != m_exec_row_mask) rebuild_exec_row(mask);
    return m_exec_row;
  }

  // A source as rows (operand.dwords of them, contiguous): the register itself, the constant's broadcast, or a scalar
  // broadcast into worker->scratch[2 * i ..]. i is the number of the source, 0..3.
  [[nodiscard]] const Row* source_row(const Instruction& instruction, unsigned i) noexcept {
    const Operand& operand = instruction.src[i];
    switch (operand.kind) {
      case OperandKind::vgpr: return vgpr + operand.index;
      case OperandKind::agpr: return agpr + operand.index;
      case OperandKind::constant: return instruction.constant_row[i];
      default: return broadcast_scalar(operand, &worker->scratch[2 * i]);
    }
  }
  [[nodiscard]] Row* destination_row(const Operand& operand) noexcept {
    return (operand.kind == OperandKind::agpr ? agpr : vgpr) + operand.index;
  }

  // A scalar source: sgpr, constant or special; 64-bit operands read two registers.
  [[nodiscard]] std::uint32_t scalar32(const Operand& operand) const noexcept {
    if (operand.kind == OperandKind::sgpr) [[likely]] return sgpr[operand.index];
    if (operand.kind == OperandKind::constant) return static_cast<std::uint32_t>(operand.value);
    return static_cast<std::uint32_t>(special_value(operand));
  }
  [[nodiscard]] std::uint64_t scalar64(const Operand& operand) const noexcept {
    if (operand.kind == OperandKind::sgpr) [[likely]] return sgpr64(operand.index);
    if (operand.kind == OperandKind::constant) return operand.value;
    return special_value(operand);
  }

  void set_mode(std::uint32_t value) noexcept {
    mode = value;
    float_mode_is_default = (value & k_mode_float_bits) == k_mode_default_float;
  }

  // Records a fault at `instruction`; returns Flow::fault, for `return wave.stop(...)`.
  Flow stop(const Instruction& instruction, FaultKind kind, std::uint64_t address = 0, unsigned lane = 0,
            AccessKind access = AccessKind::none, std::uint32_t size_bytes = 0, std::string_view detail = {}) noexcept;

 private:
  [[nodiscard]] const Row* broadcast_scalar(const Operand& operand, Row* out) const noexcept;
  [[nodiscard]] std::uint64_t special_value(const Operand& operand) const noexcept;
  void rebuild_exec_row(std::uint64_t mask) noexcept;

  std::uint64_t m_exec_row_mask = 0;
  Row m_exec_row{};
};

}  // namespace kerncap::softgpu
