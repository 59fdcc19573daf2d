// DS, FLAT (flat, global, scratch), MUBUF and MTBUF.
#include "softgpu/isa/fields.hpp"

namespace kerncap::softgpu {
namespace {

constexpr unsigned k_no_saddr = 0x7F;

[[nodiscard]] bool is_atomic(const Opcode& opcode) noexcept {
  return opcode.instruction_class == InstructionClass::vmem_atomic;
}

// Two offsets of 8 bits each, counted in elements: ds_read2, ds_write2, ds_wrxchg2 and their st64 forms.
[[nodiscard]] bool has_two_offsets(std::string_view mnemonic) noexcept {
  return mnemonic.starts_with("ds_read2") || mnemonic.starts_with("ds_write2") || mnemonic.starts_with("ds_wrxchg2");
}

void decode_ds(Decoding& d, const Opcode& opcode) noexcept {
  const std::uint32_t low = d.word(0);
  const std::uint32_t high = d.word(1);
  Decoded& out = d.out;
  const bool accumulator = bit(low, 25);
  if (has_two_offsets(opcode.mnemonic)) {
    out.offset = static_cast<std::int32_t>(bits(low, 7, 0));
    out.offset1 = static_cast<std::uint8_t>(bits(low, 15, 8));
  } else {
    out.offset = static_cast<std::int32_t>(bits(low, 15, 0));
  }
  out.memory.gds = bit(low, 16);
  if (opcode.dst.dwords != 0) d.vector_register(out.dst, opcode.dst, bits(high, 31, 24), accumulator);
  if (opcode.src[0].dwords != 0) d.vgpr(out.src[0], opcode.src[0], bits(high, 7, 0));
  if (opcode.src[1].dwords != 0) d.vector_register(out.src[1], opcode.src[1], bits(high, 15, 8), accumulator);
  if (opcode.src[2].dwords != 0) d.vector_register(out.src[2], opcode.src[2], bits(high, 23, 16), accumulator);
  out.memory.returns = opcode.dst.dwords != 0 && opcode.src[1].dwords != 0;
  // Global wave sync takes a single register, and that must be even, too.
  if (opcode.mnemonic.starts_with("ds_gws_") && out.src[0].index % 2 != 0) d.fail(DecodeStatus::odd_tuple);
}

void decode_flat(Decoding& d, const Opcode& opcode) noexcept {
  const std::uint32_t low = d.word(0);
  const std::uint32_t high = d.word(1);
  Decoded& out = d.out;
  const bool accumulator = bit(high, 23);
  const bool is_flat = opcode.format == Format::flat;
  out.offset = is_flat ? static_cast<std::int32_t>(bits(low, 11, 0)) : sign_extend(bits(low, 12, 0), 13);
  out.memory.glc = bit(low, 16);
  out.memory.slc = bit(low, 17);
  out.memory.scc = bit(low, 25);
  const unsigned saddr = is_flat ? k_no_saddr : bits(high, 22, 16);
  const bool has_saddr = saddr != k_no_saddr;
  const bool is_scratch = opcode.format == Format::scratch;
  const bool bit13 = bit(low, 13);
  const bool loads_to_lds_by_bit = traits(d.target).flat_bit13 == FlatBit13::to_lds;
  if (loads_to_lds_by_bit) {
    out.memory.to_lds = bit13;
  } else {
    out.memory.to_lds = opcode.mnemonic.find("_load_lds_") != std::string_view::npos;
  }
  if (has_saddr) {
    d.sgpr(out.src[2], is_scratch ? OperandInfo{NumberType::b32, 1} : OperandInfo{NumberType::b64, 2}, saddr);
  }
  // Scratch: where bit 13 does not tell, there is either one address or the other.
  const bool has_vaddr = !is_scratch || (loads_to_lds_by_bit ? !has_saddr : bit13);
  if (has_vaddr) {
    const bool wide = !is_scratch && !has_saddr;
    d.vgpr(out.src[0], wide ? OperandInfo{NumberType::b64, 2} : OperandInfo{NumberType::b32, 1}, bits(high, 7, 0));
  }
  if (opcode.src[1].dwords != 0) d.vector_register(out.src[1], opcode.src[1], bits(high, 15, 8), accumulator);
  out.memory.returns = is_atomic(opcode) && out.memory.glc;
  if (opcode.dst.dwords != 0 && !out.memory.to_lds && (!is_atomic(opcode) || out.memory.returns)) {
    d.vector_register(out.dst, opcode.dst, bits(high, 31, 24), accumulator);
  }
}

void decode_buffer(Decoding& d, const Opcode& opcode) noexcept {
  const std::uint32_t low = d.word(0);
  const std::uint32_t high = d.word(1);
  Decoded& out = d.out;
  const bool typed = opcode.format == Format::mtbuf;
  const bool accumulator = bit(high, 23);
  out.offset = static_cast<std::int32_t>(bits(low, 11, 0));
  out.memory.offset_enable = bit(low, 12);
  out.memory.index_enable = bit(low, 13);
  out.memory.glc = bit(low, 14);
  if (typed) {
    out.memory.data_format = static_cast<std::uint8_t>(bits(low, 22, 19));
    out.memory.number_format = static_cast<std::uint8_t>(bits(low, 25, 23));
    out.memory.scc = bit(high, 21);
    out.memory.slc = bit(high, 22);
  } else {
    out.memory.scc = bit(low, 15);
    out.memory.to_lds = bit(low, 16);
    out.memory.slc = bit(low, 17);
  }
  if (opcode.src[0].dwords == 0) return;  // cache control
  const unsigned address_registers = unsigned{out.memory.offset_enable} + unsigned{out.memory.index_enable};
  if (address_registers != 0) {
    const OperandInfo info{NumberType::b32, static_cast<std::uint8_t>(address_registers)};
    d.vgpr(out.src[0], info, bits(high, 7, 0));
  }
  const OperandInfo resource{NumberType::b128, 4};
  d.sgpr(out.src[2], resource, bits(high, 20, 16) << 2);
  d.source(out.src[3], {NumberType::b32, 1}, bits(high, 31, 24));
  if (opcode.src[1].dwords != 0) d.vector_register(out.src[1], opcode.src[1], bits(high, 15, 8), accumulator);
  out.memory.returns = is_atomic(opcode) && out.memory.glc;
  const bool writes_register = !out.memory.to_lds && (!is_atomic(opcode) || out.memory.returns);
  if (opcode.dst.dwords != 0 && writes_register) {
    d.vector_register(out.dst, opcode.dst, bits(high, 15, 8), accumulator);
  }
}

}  // namespace

void decode_memory(Decoding& d, const Opcode& opcode) noexcept {
  d.literal_allowed = false;
  switch (opcode.format) {
    case Format::ds: decode_ds(d, opcode); break;
    case Format::mubuf:
    case Format::mtbuf: decode_buffer(d, opcode); break;
    default: decode_flat(d, opcode); break;
  }
}

}  // namespace kerncap::softgpu
