// Finds an opcode by its number. Formats that share one number space (vop3 and vop3sd, vop3p and mfma) are looked up by
// the first of the two.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "softgpu/isa/opcode.hpp"

namespace kerncap::softgpu {

class OpcodeIndex {
 public:
  explicit OpcodeIndex(std::span<const Opcode> opcodes);
  [[nodiscard]] const Opcode* find(Format space, unsigned number) const noexcept {
    const std::vector<const Opcode*>& rows = m_rows[static_cast<unsigned>(space)];
    return number < rows.size() ? rows[number] : nullptr;
  }
  [[nodiscard]] static const OpcodeIndex& of(Target target);

 private:
  std::vector<const Opcode*> m_rows[k_format_count];
};

}  // namespace kerncap::softgpu
