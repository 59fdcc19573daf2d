// VOP1, VOP2, VOPC with their SDWA and DPP words, VOP3, VOP3P and the matrix instructions.
#include "softgpu/isa/fields.hpp"

namespace kerncap::softgpu {
namespace {

constexpr unsigned k_vcc_index = 106;

// The operands that no field names.
void implied_operands(Decoding& d, const Opcode& opcode) noexcept {
  Decoded& out = d.out;
  if (opcode.dst.role == OperandRole::vcc) d.sgpr(out.dst, opcode.dst, k_vcc_index);
  if (opcode.sdst.role == OperandRole::vcc && opcode.sdst.dwords != 0) d.sgpr(out.sdst, opcode.sdst, k_vcc_index);
  for (unsigned i = 0; i < 3; ++i) {
    const OperandInfo& info = opcode.src[i];
    if (info.dwords == 0) continue;
    if (info.role == OperandRole::vcc) d.sgpr(out.src[i], info, k_vcc_index);
    if (info.role == OperandRole::literal) d.literal(out.src[i], info);
    if (info.role == OperandRole::tied) out.src[i] = out.dst;
  }
}

[[nodiscard]] bool comes_from_field(const OperandInfo& info) noexcept {
  return info.dwords != 0 && info.role != OperandRole::vcc && info.role != OperandRole::literal &&
         info.role != OperandRole::tied;
}

// src0 and the VGPR source of VOP1, VOP2, VOPC; either may be scalar under SDWA.
void short_sources(Decoding& d, const Opcode& opcode, unsigned code0, unsigned code1) noexcept {
  if (comes_from_field(opcode.src[0])) d.source(d.out.src[0], opcode.src[0], code0);
  for (unsigned i = 1; i < 3; ++i) {  // v_fmamk has its K in between
    if (comes_from_field(opcode.src[i])) d.source(d.out.src[i], opcode.src[i], code1);
  }
}

void decode_sdwa(Decoding& d, const Opcode& opcode, unsigned vsrc1) noexcept {
  const std::uint32_t word = d.word(1);
  Decoded& out = d.out;
  out.variant = Variant::sdwa;
  out.sdwa.src_select[0] = static_cast<std::uint8_t>(bits(word, 18, 16));
  out.sdwa.src_select[1] = static_cast<std::uint8_t>(bits(word, 26, 24));
  out.sdwa.sign_extend[0] = bit(word, 19);
  out.sdwa.sign_extend[1] = bit(word, 27);
  out.neg = static_cast<std::uint8_t>(bits(word, 20, 20) | bits(word, 28, 28) << 1);
  out.abs = static_cast<std::uint8_t>(bits(word, 21, 21) | bits(word, 29, 29) << 1);
  if (opcode.format == Format::vopc) {
    if (bit(word, 15)) d.sgpr(out.dst, opcode.dst, bits(word, 14, 8));
  } else {
    out.sdwa.dst_select = static_cast<std::uint8_t>(bits(word, 10, 8));
    out.sdwa.dst_unused = static_cast<std::uint8_t>(bits(word, 12, 11));
    out.clamp = bit(word, 13);
    out.omod = static_cast<std::uint8_t>(bits(word, 15, 14));
    if (out.sdwa.dst_select == 7 || out.sdwa.dst_unused == 3) d.fail(DecodeStatus::bad_operand);
  }
  if (out.sdwa.src_select[0] == 7 || out.sdwa.src_select[1] == 7) d.fail(DecodeStatus::bad_operand);
  const unsigned code0 = bits(word, 7, 0) + (bit(word, 23) ? 0 : k_code_vgpr);
  const unsigned code1 = vsrc1 + (bit(word, 31) ? 0 : k_code_vgpr);
  d.literal_allowed = false;
  short_sources(d, opcode, code0, code1);
}

void decode_dpp(Decoding& d, const Opcode& opcode, unsigned vsrc1) noexcept {
  const std::uint32_t word = d.word(1);
  Decoded& out = d.out;
  out.variant = Variant::dpp;
  out.dpp.control = static_cast<std::uint16_t>(bits(word, 16, 8));
  out.dpp.bound_control = bit(word, 19);
  out.dpp.bank_mask = static_cast<std::uint8_t>(bits(word, 27, 24));
  out.dpp.row_mask = static_cast<std::uint8_t>(bits(word, 31, 28));
  out.neg = static_cast<std::uint8_t>(bits(word, 20, 20) | bits(word, 22, 22) << 1);
  out.abs = static_cast<std::uint8_t>(bits(word, 21, 21) | bits(word, 23, 23) << 1);
  d.literal_allowed = false;
  short_sources(d, opcode, bits(word, 7, 0) + k_code_vgpr, vsrc1 + k_code_vgpr);
}

void decode_short(Decoding& d, const Opcode& opcode) noexcept {
  const std::uint32_t word = d.word(0);
  const unsigned code0 = bits(word, 8, 0);
  const unsigned vsrc1 = bits(word, 16, 9);
  if (opcode.format != Format::vopc && opcode.dst.dwords != 0) {
    d.vector_register(d.out.dst, opcode.dst, bits(word, 24, 17), false);
  }
  if (opcode.src[0].dwords != 0 && (code0 == k_code_sdwa || code0 == k_code_dpp)) {
    d.base_words = 2;
    implied_operands(d, opcode);
    if (code0 == k_code_sdwa) decode_sdwa(d, opcode, vsrc1);
    if (code0 == k_code_dpp) decode_dpp(d, opcode, vsrc1);
    return;
  }
  implied_operands(d, opcode);
  short_sources(d, opcode, code0, vsrc1 + k_code_vgpr);
}

void decode_vop3(Decoding& d, const Opcode& opcode) noexcept {
  const std::uint32_t low = d.word(0);
  const std::uint32_t high = d.word(1);
  Decoded& out = d.out;
  d.literal_allowed = false;
  if (opcode.dst.dwords != 0) d.vector_register(out.dst, opcode.dst, bits(low, 7, 0), false);
  if (opcode.format == Format::vop3sd) {
    d.sgpr(out.sdst, opcode.sdst, bits(low, 14, 8));
  } else {
    out.abs = static_cast<std::uint8_t>(bits(low, 10, 8));
    out.op_sel = static_cast<std::uint8_t>(bits(low, 14, 11));
  }
  out.clamp = bit(low, 15);
  out.omod = static_cast<std::uint8_t>(bits(high, 28, 27));
  out.neg = static_cast<std::uint8_t>(bits(high, 31, 29));
  implied_operands(d, opcode);
  for (unsigned i = 0; i < 3; ++i) {
    if (comes_from_field(opcode.src[i])) d.source(out.src[i], opcode.src[i], bits(high, 9 * i + 8, 9 * i));
  }
}

void decode_vop3p(Decoding& d, const Opcode& opcode) noexcept {
  const std::uint32_t low = d.word(0);
  const std::uint32_t high = d.word(1);
  Decoded& out = d.out;
  d.literal_allowed = false;
  d.vector_register(out.dst, opcode.dst, bits(low, 7, 0), false);
  out.neg_hi = static_cast<std::uint8_t>(bits(low, 10, 8));
  out.op_sel = static_cast<std::uint8_t>(bits(low, 13, 11));
  out.op_sel_hi = static_cast<std::uint8_t>(bits(high, 28, 27) | bits(low, 14, 14) << 2);
  out.clamp = bit(low, 15);
  out.neg = static_cast<std::uint8_t>(bits(high, 31, 29));
  implied_operands(d, opcode);
  for (unsigned i = 0; i < 3; ++i) {
    if (comes_from_field(opcode.src[i])) d.source(out.src[i], opcode.src[i], bits(high, 9 * i + 8, 9 * i));
  }
}

// A and B each have a bit that moves them to the accumulation registers; C and D share one.
void decode_mfma(Decoding& d, const Opcode& opcode) noexcept {
  const std::uint32_t low = d.word(0);
  const std::uint32_t high = d.word(1);
  Decoded& out = d.out;
  d.literal_allowed = false;
  const bool accumulator_cd = bit(low, 15);
  d.vector_register(out.dst, opcode.dst, bits(low, 7, 0), accumulator_cd);
  out.cbsz = static_cast<std::uint8_t>(bits(low, 10, 8));
  out.abid = static_cast<std::uint8_t>(bits(low, 14, 11));
  out.blgp = static_cast<std::uint8_t>(bits(high, 31, 29));
  const bool sparse = opcode.mnemonic.starts_with("v_smfmac");  // its src2 is the index, an ordinary register
  const bool accumulator[3] = {bit(high, 27), bit(high, 28), accumulator_cd && !sparse};
  for (unsigned i = 0; i < 3; ++i) {
    const unsigned code = bits(high, 9 * i + 8, 9 * i);
    if (code >= k_code_vgpr) {
      d.vector_register(out.src[i], opcode.src[i], code - k_code_vgpr, accumulator[i]);
      out.src[i].encoding = static_cast<std::uint16_t>(code);
    } else if (i == 2 && !sparse && code >= 128) {
      d.source(out.src[i], opcode.src[i], code);
    } else {
      d.fail(DecodeStatus::bad_operand);
    }
  }
}

}  // namespace

void decode_vector(Decoding& d, const Opcode& opcode) noexcept {
  switch (opcode.format) {
    case Format::vop3:
    case Format::vop3sd: decode_vop3(d, opcode); break;
    case Format::vop3p: decode_vop3p(d, opcode); break;
    case Format::mfma: decode_mfma(d, opcode); break;
    default: decode_short(d, opcode); break;
  }
}

}  // namespace kerncap::softgpu
