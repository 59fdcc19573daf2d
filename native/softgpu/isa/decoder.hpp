// Machine code to Decoded, from the committed tables. Bits that the hardware ignores are ignored here too: newer
// compilers set some of them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "softgpu/isa/decoded.hpp"

namespace kerncap::softgpu {

enum class DecodeStatus : std::uint8_t {
  ok,
  truncated,       // the words end inside the instruction
  unknown_format,  // no encoding of this target begins like this
  unknown_opcode,  // the encoding is known, its opcode number is not one of this target
  bad_operand,     // a register or constant that the encoding cannot name
  odd_tuple,       // a tuple of vector registers that does not begin at an even one
};

[[nodiscard]] std::string_view text(DecodeStatus status) noexcept;

// words: the code from the instruction on, in order; at most five are read. Fills `out` only when ok.
[[nodiscard]] DecodeStatus decode(Target target, std::span<const std::uint32_t> words, Decoded& out) noexcept;

// All opcodes of a target, for tests and tools.
[[nodiscard]] std::span<const Opcode> opcodes(Target target) noexcept;

}  // namespace kerncap::softgpu
