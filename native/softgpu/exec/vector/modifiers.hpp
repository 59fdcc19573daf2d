// Everything an encoding can do to a source on its way in and to a result on its way out: DPP, SDWA, op_sel, neg, abs,
// omod, clamp. Instructions without any of it ("plain") never come here.
#pragma once

#include "softgpu/exec/vector/lane_transfer.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

// What a 16-bit result does to the other half of its register. CDNA's older 16-bit opcodes clear it; opcodes new in
// gfx9, and all of RDNA3, keep it.
enum class HighHalf : std::uint8_t { clear, keep };

[[nodiscard]] inline bool is_plain(const Instruction& instruction) noexcept {
  return instruction.variant == Variant::plain &&
         (instruction.neg | instruction.abs | instruction.op_sel | instruction.omod) == 0 && !instruction.clamp;
}

[[nodiscard]] inline bool keeps_high_half(const WaveContext& wave, HighHalf high) noexcept {
  return high == HighHalf::keep || traits(wave.target).keeps_high_half;
}

// Source i with DPP and SDWA applied, and, for 16-bit operands, op_sel: the value is in the low half then. Uses
// worker->scratch[8 + 2 * i ..].
[[nodiscard]] const Row* modified_source(WaveContext& wave, const Instruction& instruction, unsigned i,
                                         bool half_register) noexcept;

// EXEC less the lanes that DPP's masks, or a source that is not there, keep from being written.
[[nodiscard]] std::uint64_t write_mask(const WaveContext& wave, const Instruction& instruction) noexcept;

// neg and abs of source i, in the sign bit of each lane: a copy in `buffer`, or `values` when there is nothing to do.
[[nodiscard]] const std::uint32_t* signed_source(const Instruction& instruction, unsigned i,
                                                 const std::uint32_t* values, Row& buffer) noexcept;
[[nodiscard]] const std::uint64_t* signed_source(const Instruction& instruction, unsigned i,
                                                 const std::uint64_t* values, Lanes<std::uint64_t>& buffer) noexcept;
[[nodiscard]] const float* signed_source(const Instruction& instruction, unsigned i, const float* values,
                                         Lanes<float>& buffer) noexcept;

// omod and clamp of a floating-point result, in place.
void finish_result(const WaveContext& wave, const Instruction& instruction, Row& f32) noexcept;
void finish_result(const WaveContext& wave, const Instruction& instruction, Lanes<std::uint64_t>& f64) noexcept;
void finish_result(const WaveContext& wave, const Instruction& instruction, Lanes<float>& f16) noexcept;

// The wave's f16 denormal and overflow modes; MXCSR has neither. Only to be called when they are not the default.
[[nodiscard]] bool f16_mode_is_default(const WaveContext& wave) noexcept;
void flush_f16_sources(const WaveContext& wave, Lanes<float>& values) noexcept;
void flush_f16_results(const WaveContext& wave, Lanes<float>& values) noexcept;

// Writes `count` rows to the destination in the lanes of write_mask(), with SDWA's destination select or op_sel's high
// half. A 16-bit result is in the low half, the high half zero.
void commit_modified(WaveContext& wave, const Instruction& instruction, Row* result, unsigned count,
                     bool half_register, HighHalf high) noexcept;

// The same without modifiers.
void commit_plain(WaveContext& wave, const Instruction& instruction, const Row* result, unsigned count) noexcept;
void commit_half(WaveContext& wave, const Instruction& instruction, Row& result, HighHalf high) noexcept;

}  // namespace kerncap::softgpu
