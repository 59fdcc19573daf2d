// The registry of instruction handlers, put together once per process.
#include "softgpu/exec/handler_table.hpp"

#include <cstdio>
#include <cstdlib>

namespace kerncap::softgpu {

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

const HandlerTable& HandlerTable::instance() {
  // Never destroyed: programs dispatch from exit handlers, and from static destructors.
  static const HandlerTable& table = *[] {
    auto* all = new HandlerTable();
    register_scalar_families(*all);
    register_vector_families(*all);
    register_memory_families(*all);
    return all;
  }();
  return table;
}

}  // namespace kerncap::softgpu
