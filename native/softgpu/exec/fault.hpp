// Why a dispatch stopped. Filled by handlers without allocating; put into words once, when it is reported.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "softgpu/isa/target.hpp"

namespace kerncap::softgpu {

enum class FaultKind : std::uint8_t {
  none,
  unmapped_address,      // no page there
  forbidden_access,      // a page without the right
  lds_out_of_range,      // beyond the work-group's LDS
  misaligned_address,    // an atomic or LDS access that the hardware refuses
  unknown_instruction,   // not decodable, or decodable and not implemented
  register_out_of_range, // beyond what the kernel descriptor allocated
  bad_code_address,      // the program counter left executable memory
  trap,                  // s_trap; `address` is the trap id
  bad_descriptor,        // the kernel descriptor asks for what cannot be
  unsupported_operand,   // an operand form that the handler refuses
};

enum class AccessKind : std::uint8_t { none, read, write, atomic, execute };

struct Fault {
  FaultKind kind = FaultKind::none;
  AccessKind access = AccessKind::none;
  Target target = Target::gfx90a;
  std::uint8_t lane = 0;
  std::uint64_t address = 0;
  std::uint64_t pc = 0;
  std::uint32_t size_bytes = 0;
  std::uint32_t group_id[3] = {0, 0, 0};
  std::uint32_t wave = 0;
  std::uint32_t code[2] = {0, 0};  // the first words at pc
  std::string_view mnemonic;       // from the opcode table; empty when not decodable
  std::string_view detail;         // static text, may be empty

  [[nodiscard]] explicit operator bool() const noexcept { return kind != FaultKind::none; }
};

[[nodiscard]] std::string_view text(FaultKind kind) noexcept;

// One line for people: kind, address, mnemonic, pc, target, work-group, lane.
[[nodiscard]] std::string describe(const Fault& fault);

}  // namespace kerncap::softgpu
