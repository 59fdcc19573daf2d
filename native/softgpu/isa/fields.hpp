// What the halves of the decoder share: bit fields, operands, and the bookkeeping of registers touched.
#pragma once

#include <cstdint>
#include <span>

#include "softgpu/isa/decoder.hpp"

namespace kerncap::softgpu {

[[nodiscard]] constexpr std::uint32_t bits(std::uint32_t word, unsigned high, unsigned low) noexcept {
  return (word >> low) & ((std::uint32_t{2} << (high - low)) - 1);
}
[[nodiscard]] constexpr bool bit(std::uint32_t word, unsigned at) noexcept { return ((word >> at) & 1) != 0; }
[[nodiscard]] constexpr std::int32_t sign_extend(std::uint32_t value, unsigned width) noexcept {
  return static_cast<std::int32_t>(value << (32 - width)) >> (32 - width);
}

// Operand codes that stand for something else than an operand.
inline constexpr unsigned k_code_sdwa = 249;
inline constexpr unsigned k_code_dpp = 250;
inline constexpr unsigned k_code_literal = 255;
inline constexpr unsigned k_code_vgpr = 256;

// One instruction under decoding. A failed operand leaves `status` at the first problem; the caller looks once.
struct Decoding {
  Target target;
  std::span<const std::uint32_t> words;
  Decoded& out;
  DecodeStatus status = DecodeStatus::ok;
  unsigned base_words = 1;      // before a literal, or an SDWA or DPP word
  bool literal_used = false;
  bool literal_allowed = true;  // VOP3 of CDNA has no room for one

  [[nodiscard]] std::uint32_t word(unsigned i) const noexcept { return i < words.size() ? words[i] : 0; }
  void fail(DecodeStatus why) noexcept {
    if (status == DecodeStatus::ok) status = why;
  }

  // A source by its code, 0..511.
  void source(Operand& operand, const OperandInfo& info, unsigned code) noexcept;
  void literal(Operand& operand, const OperandInfo& info) noexcept;
  void vgpr(Operand& operand, const OperandInfo& info, unsigned index) noexcept;
  void agpr(Operand& operand, const OperandInfo& info, unsigned index) noexcept;
  // A scalar register by its encoding, 0..127.
  void sgpr(Operand& operand, const OperandInfo& info, unsigned index) noexcept;
  // A vector destination or source, in the file that the role or the accumulator bit says.
  void vector_register(Operand& operand, const OperandInfo& info, unsigned index, bool accumulator) noexcept;
};

void decode_scalar(Decoding& d, const Opcode& opcode) noexcept;
void decode_vector(Decoding& d, const Opcode& opcode) noexcept;
void decode_memory(Decoding& d, const Opcode& opcode) noexcept;

}  // namespace kerncap::softgpu
