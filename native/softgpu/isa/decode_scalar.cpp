// SOP1, SOP2, SOPC, SOPK, SOPP and SMEM.
#include "softgpu/isa/fields.hpp"

namespace kerncap::softgpu {
namespace {

void decode_smem(Decoding& d, const Opcode& opcode) noexcept {
  const std::uint32_t low = d.word(0);
  const std::uint32_t high = d.word(1);
  Decoded& out = d.out;
  out.memory.glc = bit(low, 16);
  const OperandInfo& data = opcode.dst.dwords != 0 ? opcode.dst : opcode.src[2];
  if (data.dwords != 0) d.sgpr(opcode.dst.dwords != 0 ? out.dst : out.src[2], data, bits(low, 12, 6));
  if (opcode.src[0].dwords == 0) return;  // s_memtime, cache control
  d.sgpr(out.src[0], opcode.src[0], bits(low, 5, 0) << 1);
  const bool immediate = bit(low, 17);
  const bool scalar_too = bit(low, 14);
  if (immediate) out.offset = sign_extend(bits(high, 20, 0), 21);
  if (scalar_too) {
    d.sgpr(out.src[1], opcode.src[1], bits(high, 31, 25));
  } else if (!immediate) {
    d.sgpr(out.src[1], opcode.src[1], bits(high, 6, 0));
  }
}

}  // namespace

void decode_scalar(Decoding& d, const Opcode& opcode) noexcept {
  const std::uint32_t word = d.word(0);
  Decoded& out = d.out;
  const auto destination = [&] {
    if (opcode.dst.dwords != 0) d.sgpr(out.dst, opcode.dst, bits(word, 22, 16));
  };
  const auto source = [&](unsigned i, unsigned code) {
    if (opcode.src[i].dwords != 0) d.source(out.src[i], opcode.src[i], code);
  };
  switch (opcode.format) {
    case Format::sop1:
      destination();
      source(0, bits(word, 7, 0));
      break;
    case Format::sop2:
      destination();
      [[fallthrough]];
    case Format::sopc:
      source(0, bits(word, 7, 0));
      if (opcode.mnemonic == "s_set_gpr_idx_on") {  // the field is the mode bits themselves
        out.offset = static_cast<std::int32_t>(bits(word, 15, 8));
      } else {
        source(1, bits(word, 15, 8));
      }
      break;
    case Format::sopk:
      destination();
      out.offset = sign_extend(bits(word, 15, 0), 16);
      if (opcode.mnemonic == "s_setreg_imm32_b32") d.literal(out.src[0], {NumberType::b32, 1});
      break;
    case Format::sopp: out.offset = sign_extend(bits(word, 15, 0), 16); break;
    default: decode_smem(d, opcode); break;
  }
}

}  // namespace kerncap::softgpu
