// Decoding and binding, one instruction at a time.
#include "softgpu/exec/code_page.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "softgpu/exec/handler_table.hpp"
#include "softgpu/isa/decoder.hpp"

namespace kerncap::softgpu {
namespace {

[[nodiscard]] bool is_vector_format(Format format) noexcept {
  switch (format) {
    case Format::vop1:
    case Format::vop2:
    case Format::vopc:
    case Format::vop3:
    case Format::vop3sd:
    case Format::vop3p:
    case Format::mfma: return true;
    default: return false;
  }
}

[[nodiscard]] std::string_view unimplemented(const Opcode& opcode) noexcept {
  return opcode.format == Format::mimg ? "the software GPU executes no image instructions" : "this form of it is not implemented";
}

}  // namespace

bool CodePage::load(Translation& memory) noexcept {
  const std::byte* page = memory.host(m_base, k_code_page_bytes, Rights::execute);
  if (page == nullptr) return false;
  std::memcpy(m_words.data(), page, k_code_page_bytes);
  m_size_bytes = k_code_page_bytes;
  const std::byte* next = memory.host(m_base + k_code_page_bytes, k_overhang_bytes, Rights::execute);
  if (next != nullptr) {
    std::memcpy(m_words.data() + k_code_page_bytes / 4, next, k_overhang_bytes);
    m_size_bytes += k_overhang_bytes;
  }
  return true;
}

bool CodePage::same_as_memory(Translation& memory) const noexcept {
  const std::byte* page = memory.host(m_base, k_code_page_bytes, Rights::execute);
  if (page == nullptr || std::memcmp(m_words.data(), page, k_code_page_bytes) != 0) return false;
  const std::byte* next = memory.host(m_base + k_code_page_bytes, k_overhang_bytes, Rights::execute);
  const bool had_next = m_size_bytes > k_code_page_bytes;
  if (had_next != (next != nullptr)) return false;
  return !had_next || std::memcmp(m_words.data() + k_code_page_bytes / 4, next, k_overhang_bytes) == 0;
}

const Instruction* CodePage::decode_at(std::uint64_t pc, Fault& fault) {
  const std::size_t index = (pc - m_base) / 4;
  const std::span<const std::uint32_t> words(m_words.data() + index, m_size_bytes / 4 - index);
  Instruction instruction;
  instruction.pc = pc;
  const DecodeStatus status = decode(m_target, words, instruction);
  if (status == DecodeStatus::ok) {
    bind_constants(instruction);
    instruction.handler = HandlerTable::instance(traits(m_target).lanes).bind(m_target, instruction);
  }
  if (instruction.handler == nullptr) {
    fault = Fault{};
    fault.kind = FaultKind::unknown_instruction;
    fault.target = m_target;
    fault.pc = pc;
    std::copy_n(words.begin(), std::min<std::size_t>(words.size(), 2), fault.code);
    if (instruction.opcode != nullptr) fault.mnemonic = instruction.opcode->mnemonic;
    fault.detail = status != DecodeStatus::ok ? text(status) : unimplemented(*instruction.opcode);
    return nullptr;
  }
  m_instructions.push_back(instruction);
  m_slots[index] = &m_instructions.back();
  return m_slots[index];
}

void CodePage::bind_constants(Instruction& instruction) {
  if (!is_vector_format(instruction.opcode->format)) return;
  for (unsigned i = 0; i < 4; ++i) {
    const Operand& source = instruction.src[i];
    if (source.kind == OperandKind::constant) instruction.constant_row[i] = constant_rows(source.value);
  }
}

const Row* CodePage::constant_rows(std::uint64_t value) {
  const Row*& known = m_row_of_value[value];
  if (known == nullptr) {
    std::array<Row, 2>& rows = m_rows.emplace_back();
    std::fill_n(rows[0].lane, k_max_lanes, static_cast<std::uint32_t>(value));
    std::fill_n(rows[1].lane, k_max_lanes, static_cast<std::uint32_t>(value >> 32));
    known = rows.data();
  }
  return known;
}

}  // namespace kerncap::softgpu
