// Operands of the decoder: registers with their bounds, inline constants and literals in their operand's number type.
#include <algorithm>

#include "softgpu/isa/fields.hpp"

namespace kerncap::softgpu {
namespace {

constexpr unsigned k_last_sgpr = 101;
constexpr unsigned k_last_scalar = 127;
constexpr std::uint64_t k_low_half = 0xFFFF;

struct FloatConstant {
  std::uint16_t f16, bf16;
  std::uint32_t f32;
  std::uint64_t f64;
};
// Codes 240..248: 0.5, -0.5, 1, -1, 2, -2, 4, -4, 1/(2 pi).
constexpr FloatConstant k_float_constants[] = {
    {0x3800, 0x3F00, 0x3F000000, 0x3FE0000000000000}, {0xB800, 0xBF00, 0xBF000000, 0xBFE0000000000000},
    {0x3C00, 0x3F80, 0x3F800000, 0x3FF0000000000000}, {0xBC00, 0xBF80, 0xBF800000, 0xBFF0000000000000},
    {0x4000, 0x4000, 0x40000000, 0x4000000000000000}, {0xC000, 0xC000, 0xC0000000, 0xC000000000000000},
    {0x4400, 0x4080, 0x40800000, 0x4010000000000000}, {0xC400, 0xC080, 0xC0800000, 0xC010000000000000},
    {0x3118, 0x3E23, 0x3E22F983, 0x3FC45F306DC9C882},
};

[[nodiscard]] bool is_64_bit(NumberType type) noexcept {
  return type == NumberType::b64 || type == NumberType::f64 || type == NumberType::i64 || type == NumberType::u64;
}
[[nodiscard]] bool is_16_bit(NumberType type) noexcept {
  return type == NumberType::b16 || type == NumberType::f16 || type == NumberType::bf16 || type == NumberType::i16 ||
         type == NumberType::u16;
}

[[nodiscard]] std::uint64_t float_constant(const FloatConstant& value, NumberType type) noexcept {
  if (is_64_bit(type)) return value.f64;
  if (type == NumberType::bf16 || type == NumberType::pk_bf16) return value.bf16;
  if (is_16_bit(type) || type == NumberType::pk_f16) return value.f16;
  return value.f32;
}

[[nodiscard]] std::uint64_t integer_constant(std::int32_t value, NumberType type) noexcept {
  if (is_64_bit(type)) return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  const std::uint64_t low = static_cast<std::uint32_t>(value);
  return is_16_bit(type) ? low & k_low_half : low;
}

// A literal has 32 bits: the high half of a double, else extended as its type says.
[[nodiscard]] std::uint64_t literal_constant(std::uint32_t value, NumberType type) noexcept {
  if (type == NumberType::f64) return std::uint64_t{value} << 32;
  if (type == NumberType::i64) return static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(value)});
  return is_16_bit(type) ? value & k_low_half : value;
}

void describe(Operand& operand, const OperandInfo& info, OperandKind kind, unsigned index) noexcept {
  operand.kind = kind;
  operand.dwords = info.dwords;
  operand.type = info.type;
  operand.index = static_cast<std::uint16_t>(index);
}

}  // namespace

void Decoding::vgpr(Operand& operand, const OperandInfo& info, unsigned index) noexcept {
  describe(operand, info, OperandKind::vgpr, index);
  if (info.dwords > 1 && index % 2 != 0) fail(DecodeStatus::odd_tuple);  // since gfx90a; no compiler for these targets makes one
  out.vgpr_end = std::max(out.vgpr_end, static_cast<std::uint16_t>(index + info.dwords));
}

void Decoding::agpr(Operand& operand, const OperandInfo& info, unsigned index) noexcept {
  describe(operand, info, OperandKind::agpr, index);
  if (info.dwords > 1 && index % 2 != 0) fail(DecodeStatus::odd_tuple);
  out.agpr_end = std::max(out.agpr_end, static_cast<std::uint16_t>(index + info.dwords));
}

void Decoding::sgpr(Operand& operand, const OperandInfo& info, unsigned index) noexcept {
  describe(operand, info, OperandKind::sgpr, index);
  operand.encoding = operand.index;
  // Pairs begin at even registers, longer tuples at multiples of four; none runs from the SGPRs into VCC and the like.
  const unsigned limit = index <= k_last_sgpr ? k_last_sgpr : k_last_scalar;
  const unsigned alignment = info.dwords <= 1 ? 1 : info.dwords == 2 ? 2 : 4;
  if (index + std::max<unsigned>(info.dwords, 1) > limit + 1 || index % alignment != 0) fail(DecodeStatus::bad_operand);
  if (!traits(target).has_null_operand && index == 125) fail(DecodeStatus::bad_operand);
}

void Decoding::vector_register(Operand& operand, const OperandInfo& info, unsigned index, bool accumulator) noexcept {
  if (info.role == OperandRole::scalar) {
    sgpr(operand, info, index);
  } else if (accumulator || info.role == OperandRole::accumulator) {
    agpr(operand, info, index);
  } else {
    vgpr(operand, info, index);
  }
}

void Decoding::literal(Operand& operand, const OperandInfo& info) noexcept {
  describe(operand, info, OperandKind::constant, 0);
  operand.encoding = k_code_literal;
  operand.is_literal = true;
  operand.value = literal_constant(word(base_words), info.type);
  literal_used = true;
  if (!literal_allowed) fail(DecodeStatus::bad_operand);
  if (words.size() <= base_words) fail(DecodeStatus::truncated);
}

void Decoding::source(Operand& operand, const OperandInfo& info, unsigned code) noexcept {
  operand.encoding = static_cast<std::uint16_t>(code);
  if (code >= k_code_vgpr && info.role == OperandRole::scalar) {
    fail(DecodeStatus::bad_operand);  // a mask lives in scalar registers
  } else if (code >= k_code_vgpr) {
    vector_register(operand, info, code - k_code_vgpr, false);
  } else if (code <= k_last_scalar) {
    sgpr(operand, info, code);
  } else if (code <= 192) {
    describe(operand, info, OperandKind::constant, 0);
    operand.value = integer_constant(static_cast<std::int32_t>(code) - 128, info.type);
  } else if (code <= 208) {
    describe(operand, info, OperandKind::constant, 0);
    operand.value = integer_constant(192 - static_cast<std::int32_t>(code), info.type);
  } else if (code >= 240 && code <= 248) {
    describe(operand, info, OperandKind::constant, 0);
    operand.value = float_constant(k_float_constants[code - 240], info.type);
  } else if ((code >= 235 && code <= 238) || (code >= 251 && code <= 253)) {
    describe(operand, info, OperandKind::special, code);
  } else if (code == k_code_literal) {
    literal(operand, info);
  } else {
    fail(DecodeStatus::bad_operand);
  }
  operand.encoding = static_cast<std::uint16_t>(code);
}

}  // namespace kerncap::softgpu
