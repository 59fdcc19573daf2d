// Decodes instructions given as hexadecimal words and prints what the decoder made of them, for the oracle tests.
// Usage: decode_dump TARGET; each input line: words of one instruction and what follows it. Each output line:
//   MNEMONIC SIZE_BYTES REGISTER…    or    ! STATUS
// Registers as in assembly: v1, s[2:3], a[0:15], vcc, exec, m0; constants are left out.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "softgpu/isa/decoder.hpp"

namespace {

using namespace kerncap::softgpu;

std::string register_name(const Operand& operand) {
  const char* file = operand.kind == OperandKind::vgpr ? "v" : operand.kind == OperandKind::agpr ? "a" : "s";
  unsigned first = operand.index;
  if (operand.kind == OperandKind::sgpr) {
    if (first >= 108 && first < 124) {
      file = "ttmp";
      first -= 108;
    } else if (first >= 102) {
      static constexpr const char* k_low[] = {"flat_scratch_lo", "flat_scratch_hi", "xnack_mask_lo", "xnack_mask_hi", "vcc_lo", "vcc_hi"};
      static constexpr const char* k_pair[] = {"flat_scratch", "?", "xnack_mask", "?", "vcc", "?"};
      if (first < 108) return operand.dwords > 1 ? k_pair[first - 102] : k_low[first - 102];
      if (first == 124) return "m0";
      if (first == 126) return operand.dwords > 1 ? "exec" : "exec_lo";
      return first == 127 ? "exec_hi" : "reserved";
    }
  }
  if (operand.dwords <= 1) return file + std::to_string(first);
  return file + ("[" + std::to_string(first)) + ":" + std::to_string(first + operand.dwords - 1) + "]";
}

bool is_register(const Operand& operand) {
  return operand.kind == OperandKind::vgpr || operand.kind == OperandKind::agpr || operand.kind == OperandKind::sgpr;
}

std::string dump(Target target, const std::vector<std::uint32_t>& words) {
  Decoded decoded;
  const DecodeStatus status = decode(target, words, decoded);
  if (status != DecodeStatus::ok) return "! " + std::string(text(status));
  std::string line = std::string(decoded.opcode->mnemonic) + " " + std::to_string(decoded.size_bytes);
  for (const Operand* operand : {&decoded.dst, &decoded.sdst, &decoded.src[0], &decoded.src[1], &decoded.src[2], &decoded.src[3]}) {
    if (is_register(*operand)) line += " " + register_name(*operand);
  }
  return line;
}

}  // namespace

int main(int argc, char** argv) {
  const auto target = argc == 2 ? parse_target(argv[1]) : std::nullopt;
  if (!target) {
    std::fprintf(stderr, "usage: decode_dump gfx90a|gfx942 < words\n");
    return 2;
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::vector<std::uint32_t> words;
    for (std::string word; in >> word;) words.push_back(static_cast<std::uint32_t>(std::stoul(word, nullptr, 16)));
    std::cout << dump(*target, words) << '\n';
  }
}
