// Interrupts are counted: a wait ends when the count is no longer what it was when the wait began.
#include "core/interrupt.hpp"

#include <atomic>

namespace kerncap::core {
namespace {

std::atomic<bool (*)()> g_check{nullptr};
std::atomic<std::size_t> g_interrupts{0};

}  // namespace

void set_interrupt_check(bool (*check)()) noexcept { g_check = check; }

InterruptWatch::InterruptWatch() noexcept : m_seen(g_interrupts) {}

bool InterruptWatch::interrupted() const {
  if (g_interrupts != m_seen) return true;
  bool (*const check)() = g_check;
  if (check == nullptr || !check()) return false;
  ++g_interrupts;
  return true;
}

}  // namespace kerncap::core
