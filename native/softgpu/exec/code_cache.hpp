// Decoded code of one GPU in one process, as one worker sees it. Instructions are decoded when they are first reached,
// page by page of code, and kept together with a copy of the bytes that they were made from.
//
// Code may be replaced at the same address: a page is compared with memory again when it is reached for the first
// time in a new epoch. begin_epoch() marks the moments at which the hardware would invalidate its instruction cache:
// the acquire of a new dispatch, s_icache_inv. An instruction stays valid until the next call of find().
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "softgpu/exec/fault.hpp"
#include "softgpu/exec/instruction.hpp"
#include "softgpu/exec/translation.hpp"

namespace kerncap::softgpu {

inline constexpr std::uint64_t k_code_page_bytes = 4096;

class CodePage;

class CodeCache {
 public:
  explicit CodeCache(Target target);
  ~CodeCache();
  CodeCache(const CodeCache&) = delete;
  CodeCache& operator=(const CodeCache&) = delete;

  void begin_epoch() noexcept { ++m_epoch; }

  // The bound instruction at pc; null with the reason in `fault` (address, code words, mnemonic where known).
  [[nodiscard]] const Instruction* find(Translation& memory, std::uint64_t pc, Fault& fault);

  // The instruction that is being executed: for who finds out elsewhere that it failed. Null while one is looked for.
  void execute(const Instruction* instruction) noexcept { m_executed = instruction; }
  [[nodiscard]] const Instruction* executed() const noexcept { return m_executed; }

  // The instruction after `before`, which falls through; remembered in it where both are on one page.
  [[nodiscard]] const Instruction* after(Translation& memory, const Instruction& before, Fault& fault);

 private:
  [[nodiscard]] CodePage* page(Translation& memory, std::uint64_t base);

  Target m_target;
  std::uint64_t m_epoch = 1;
  CodePage* m_last = nullptr;
  const Instruction* m_executed = nullptr;
  std::unordered_map<std::uint64_t, std::unique_ptr<CodePage>> m_pages;
};

}  // namespace kerncap::softgpu
