#include "softgpu/isa/opcode_index.hpp"

#include "softgpu/isa/decoder.hpp"
#include "softgpu/isa/tables.hpp"

namespace kerncap::softgpu {
namespace {

[[nodiscard]] Format number_space(Format format) noexcept {
  if (format == Format::vop3sd) return Format::vop3;
  return format == Format::mfma ? Format::vop3p : format;
}

}  // namespace

OpcodeIndex::OpcodeIndex(std::span<const Opcode> opcodes) {
  for (const Opcode& opcode : opcodes) {
    std::vector<const Opcode*>& rows = m_rows[static_cast<unsigned>(number_space(opcode.format))];
    if (rows.size() <= opcode.number) rows.resize(opcode.number + std::size_t{1});
    rows[opcode.number] = &opcode;
  }
}

const OpcodeIndex& OpcodeIndex::of(Target target) {
  // Never destroyed: programs dispatch from exit handlers, and from static destructors.
  static const auto* const indices = [] {
    auto* made = new std::vector<OpcodeIndex>;
    for (unsigned i = 0; i < k_target_count; ++i) made->emplace_back(opcodes(static_cast<Target>(i)));
    return made;
  }();
  return (*indices)[static_cast<unsigned>(target)];
}

std::span<const Opcode> opcodes(Target target) noexcept {
  switch (target) {
    case Target::gfx90a: return k_gfx90a_opcodes;
    case Target::gfx942: return k_gfx942_opcodes;
    case Target::gfx1100: break;
  }
  return {};
}

}  // namespace kerncap::softgpu
