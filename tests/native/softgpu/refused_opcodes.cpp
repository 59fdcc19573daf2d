// Prints the opcodes of a target that have no handler: what stops the queue by its name.
#include <cstdio>
#include <set>

#include "softgpu/exec/handler_table.hpp"
#include "softgpu/isa/decoder.hpp"

int main(int argc, char** argv) {
  using namespace kerncap::softgpu;
  const auto target = argc == 2 ? parse_target(argv[1]) : std::nullopt;
  if (!target) {
    std::fprintf(stderr, "usage: refused_opcodes gfx90a|gfx942\n");
    return 2;
  }
  std::set<std::string_view> refused;
  for (const Opcode& opcode : opcodes(*target)) {
    if (!HandlerTable::instance(traits(*target).lanes).has(opcode.mnemonic)) refused.insert(opcode.mnemonic);
  }
  for (const std::string_view mnemonic : refused) std::printf("%.*s\n", static_cast<int>(mnemonic.size()), mnemonic.data());
}
