// Random and mutated words through the decoder, the binder and the kernel descriptor parser: whatever they are given,
// they answer, and what they accept stays within its bounds. Meant to be run under sanitizers; usage: decoder_fuzz SEED.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "softgpu/exec/handler_table.hpp"
#include "softgpu/exec/kernel_descriptor.hpp"
#include "softgpu/isa/decoder.hpp"

namespace {

using namespace kerncap::softgpu;

void require(bool condition, const char* what, std::uint32_t first, std::uint32_t second) {
  if (condition) return;
  std::fprintf(stderr, "decoder_fuzz: %s: %08x %08x\n", what, first, second);
  std::exit(1);
}

bool within_bounds(const Operand& operand) {
  switch (operand.kind) {
    case OperandKind::sgpr: return operand.index + operand.dwords <= 128;
    case OperandKind::vgpr:
    case OperandKind::agpr: return operand.index < 256 && operand.dwords <= 32;
    default: return true;
  }
}

void fuzz_decoder(Target target, std::mt19937& random) {
  // The highest bits choose the encoding: a word whose low bits alone are random reaches all opcodes.
  const std::span<const Opcode> rows = opcodes(target);
  for (int i = 0; i < 300'000; ++i) {
    std::uint32_t words[4] = {static_cast<std::uint32_t>(random()), static_cast<std::uint32_t>(random()),
                              static_cast<std::uint32_t>(random()), static_cast<std::uint32_t>(random())};
    if (i % 3 == 0) words[1] &= static_cast<std::uint32_t>(random());
    const std::size_t size = i % 5 == 0 ? random() % 4 : 4;
    // A vector of exactly this size, so that a read beyond it is seen.
    const std::vector<std::uint32_t> code(words, words + size);
    Instruction instruction;
    const DecodeStatus status = decode(target, code, instruction);
    if (status != DecodeStatus::ok) continue;
    require(instruction.size_bytes >= 4 && instruction.size_bytes <= 4 * size, "length", words[0], words[1]);
    require(instruction.opcode >= rows.data() && instruction.opcode < rows.data() + rows.size(), "opcode", words[0], words[1]);
    for (const Operand* operand : {&instruction.dst, &instruction.sdst, &instruction.src[0], &instruction.src[1],
                                   &instruction.src[2], &instruction.src[3]}) {
      require(within_bounds(*operand), "operand out of bounds", words[0], words[1]);
    }
    static_cast<void>(HandlerTable::instance(traits(target).lanes).bind(target, instruction));
  }
}

void fuzz_descriptor(Target target, std::mt19937& random) {
  for (int i = 0; i < 200'000; ++i) {
    std::array<std::byte, k_descriptor_bytes> bytes{};
    const unsigned changes = 1 + random() % 64;
    for (unsigned k = 0; k < changes; ++k) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    const auto parsed = KernelDescriptor::parse(target, bytes);
    if (!parsed) continue;
    const KernelDescriptor& d = parsed.value();
    require(d.vgprs > 0 && d.vgprs <= 256 && d.vgprs + d.agprs <= 512 && d.sgprs <= 112, "registers", d.vgprs, d.sgprs);
    require(d.user_sgprs <= 16 && d.initial_sgprs(target) <= d.sgprs, "initial SGPRs", d.user_sgprs, d.sgprs);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::mt19937 random(argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 1);
  for (const Target target : {Target::gfx90a, Target::gfx942}) {
    fuzz_decoder(target, random);
    fuzz_descriptor(target, random);
  }
}
