// The registry of instruction handlers, put together once per process.
#include "softgpu/exec/handler_table.hpp"

#include <cstdio>
#include <cstdlib>

namespace kerncap::softgpu {

// One function per folder, which adds all the families in it. Folders that walk rows have one for each size of wave.
void register_scalar_families(HandlerTable& table);
// Null where a program is not linked with those of waves of 32 lanes: only tests are.
namespace wave32 {
[[gnu::weak]] void register_vector_families(HandlerTable& table);
[[gnu::weak]] void register_memory_families(HandlerTable& table);
}  // namespace wave32
namespace wave64 {
void register_vector_families(HandlerTable& table);
void register_memory_families(HandlerTable& table);
}  // namespace wave64

namespace {

using Register = void (*)(HandlerTable& table);

[[nodiscard]] const HandlerTable& make_table(Register vector, Register memory) {
  auto* all = new HandlerTable();
  register_scalar_families(*all);
  vector(*all);
  memory(*all);
  return *all;
}

}  // namespace

void HandlerTable::add(std::span<const HandlerEntry> entries) {
  for (const HandlerEntry& entry : entries) {
    if (m_factories.emplace(entry.mnemonic, entry.make).second) continue;
    std::fprintf(stderr, "kerncap: softgpu: %.*s is registered twice\n", static_cast<int>(entry.mnemonic.size()),
                 entry.mnemonic.data());
    std::abort();
  }
}

Handler HandlerTable::bind(Target target, Instruction& instruction) const {
  const auto found = m_factories.find(instruction.opcode->mnemonic);
  return found == m_factories.end() ? nullptr : found->second(target, instruction);
}

const HandlerTable& HandlerTable::instance(unsigned lanes) {
  // Never destroyed: programs dispatch from exit handlers, and from static destructors.
  if (lanes == 32) {
    if (wave32::register_vector_families == nullptr) {
      std::fputs("kerncap: softgpu: no handlers of waves of 32 lanes are built in\n", stderr);
      std::abort();
    }
    static const HandlerTable& table = make_table(wave32::register_vector_families, wave32::register_memory_families);
    return table;
  }
  static const HandlerTable& table = make_table(wave64::register_vector_families, wave64::register_memory_families);
  return table;
}

}  // namespace kerncap::softgpu
