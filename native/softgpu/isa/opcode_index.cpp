#include "softgpu/isa/opcode_index.hpp"

#include "softgpu/isa/decoder.hpp"
#include "softgpu/isa/tables.hpp"

namespace kerncap::softgpu {
namespace {

// One for each target. Null: its instructions are not known yet.
constexpr const std::span<const Opcode>* k_tables[k_target_count] = {&k_gfx90a_opcodes, &k_gfx942_opcodes, nullptr};

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
  const std::span<const Opcode>* const table = k_tables[static_cast<unsigned>(target)];
  return table != nullptr ? *table : std::span<const Opcode>();
}

}  // namespace kerncap::softgpu
