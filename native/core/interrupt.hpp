// Letting go of a wait when the user asks for it. Core knows no interpreter: who has one tells here how to ask it.
#pragma once

#include <cstddef>

namespace kerncap::core {

// `check` tells whether the user wants out, and is called from any thread; none at first.
void set_interrupt_check(bool (*check)()) noexcept;

// One wait, from construction. An interrupt that one thread meets ends the waits of all.
class InterruptWatch {
 public:
  InterruptWatch() noexcept;
  [[nodiscard]] bool interrupted() const;

 private:
  std::size_t m_seen;
};

}  // namespace kerncap::core
