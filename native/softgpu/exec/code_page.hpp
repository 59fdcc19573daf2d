// One page of decoded code: a part of the code cache.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <unordered_map>

#include "softgpu/exec/code_cache.hpp"

namespace kerncap::softgpu {

class CodePage {
 public:
  // Longest instruction: an instruction that begins on the page may end on the next one.
  static constexpr std::uint32_t k_overhang_bytes = 16;

  CodePage(Target target, std::uint64_t base) noexcept : m_target(target), m_base(base) {}

  // Copies the code from memory. False when the page is not executable (mappings are whole pages).
  [[nodiscard]] bool load(Translation& memory) noexcept;
  [[nodiscard]] bool same_as_memory(Translation& memory) const noexcept;

  [[nodiscard]] const Instruction* at(std::uint64_t pc, Fault& fault) {
    const Instruction* found = m_slots[(pc - m_base) / 4];
    return found != nullptr ? found : decode_at(pc, fault);
  }
  [[nodiscard]] std::uint64_t base() const noexcept { return m_base; }

  std::uint64_t epoch = 0;  // the newest in which it was seen to equal memory

 private:
  [[nodiscard]] const Instruction* decode_at(std::uint64_t pc, Fault& fault);
  void bind_constants(Instruction& instruction);
  [[nodiscard]] const Row* constant_rows(std::uint64_t value);
  Target m_target;
  std::uint64_t m_base;
  std::uint32_t m_size_bytes = 0;  // with the overhang, where the next page is executable
  std::array<std::uint32_t, (k_code_page_bytes + k_overhang_bytes) / 4> m_words{};
  std::array<Instruction*, k_code_page_bytes / 4> m_slots{};
  std::deque<Instruction> m_instructions;
  std::deque<std::array<Row, 2>> m_rows;
  std::unordered_map<std::uint64_t, const Row*> m_row_of_value;
};

}  // namespace kerncap::softgpu
