// Faults in words.
#include "softgpu/exec/fault.hpp"

#include <cstdio>

#include "softgpu/exec/row.hpp"

namespace kerncap::softgpu {

std::string_view text(FaultKind kind) noexcept {
  switch (kind) {
    case FaultKind::none: return "no fault";
    case FaultKind::unmapped_address: return "access to an unmapped address";
    case FaultKind::forbidden_access: return "access without the right to it";
    case FaultKind::lds_out_of_range: return "access beyond the work-group's LDS";
    case FaultKind::misaligned_address: return "misaligned access";
    case FaultKind::unknown_instruction: return "unknown instruction";
    case FaultKind::register_out_of_range: return "register beyond the kernel's allocation";
    case FaultKind::bad_code_address: return "code address that is not executable memory";
    case FaultKind::trap: return "trap";
    case FaultKind::bad_descriptor: return "impossible kernel descriptor";
    case FaultKind::unsupported_operand: return "unsupported operand form";
  }
  return "unknown fault";
}

std::string describe(const Fault& fault) {
  static constexpr const char* k_access[] = {"", " by a read", " by a write", " by an atomic", " by a fetch"};
  const auto hex = [](std::uint64_t value) {
    char buffer[20];
    std::snprintf(buffer, sizeof buffer, "0x%llx", static_cast<unsigned long long>(value));
    return std::string(buffer);
  };
  std::string line(text(fault.kind));
  const bool has_address = fault.access != AccessKind::none || fault.kind == FaultKind::trap;
  if (has_address) line += " " + hex(fault.address);
  if (fault.access != AccessKind::none) {
    if (fault.size_bytes != 0) line += " (" + std::to_string(fault.size_bytes) + " bytes)";
    line += k_access[static_cast<unsigned>(fault.access)];
  }
  if (!fault.mnemonic.empty()) {
    line += ": " + std::string(fault.mnemonic);
  } else if (fault.kind == FaultKind::unknown_instruction) {
    line += ": words " + hex(fault.code[0]) + " " + hex(fault.code[1]);
  }
  if (!fault.detail.empty()) line += " (" + std::string(fault.detail) + ")";
  line += " at pc " + hex(fault.pc) + ", target " + std::string(name(fault.target));
  line += ", work-group (" + std::to_string(fault.group_id[0]) + ", " + std::to_string(fault.group_id[1]) + ", " +
          std::to_string(fault.group_id[2]) + "), wave " + std::to_string(fault.wave);
  if (fault.lane < k_max_lanes) line += ", lane " + std::to_string(fault.lane);  // else which one is not known
  return line;
}

}  // namespace kerncap::softgpu
