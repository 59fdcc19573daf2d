// From mnemonics to handlers. Each family registers the opcodes that it implements; an opcode that nobody registered
// is an unknown instruction when it is executed, never a no-op.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>

#include "softgpu/exec/instruction.hpp"

namespace kerncap::softgpu {

// Chooses the handler for one decoded instruction, by its operands and modifiers; may rewrite the instruction (fold
// a modifier, say). Null: this form is not implemented.
using HandlerFactory = Handler (*)(Target target, Instruction& instruction);

struct HandlerEntry {
  std::string_view mnemonic;  // static storage
  HandlerFactory make;
};

class HandlerTable {
 public:
  // A mnemonic registered twice is a programming error: aborts with its name.
  void add(std::span<const HandlerEntry> entries);
  [[nodiscard]] Handler bind(Target target, Instruction& instruction) const;
  [[nodiscard]] bool has(std::string_view mnemonic) const { return m_factories.contains(mnemonic); }

  // Every family of this build, for waves of 32 or 64 lanes.
  [[nodiscard]] static const HandlerTable& instance(unsigned lanes);

 private:
  std::unordered_map<std::string_view, HandlerFactory> m_factories;
};

// For an opcode with one handler for all its forms.
template <Handler k_handler>
Handler always(Target, Instruction&) { return k_handler; }

}  // namespace kerncap::softgpu
