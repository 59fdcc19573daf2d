// Catches faults of the host in a thread that works for the GPU.
//
// The GPU's page table says what the GPU may reach, but memory that belongs to the program (registered or managed) can
// be unmapped by it at any time, without a word to the driver. Real hardware then reports a page that is not present;
// so do we: within guarded(), SIGSEGV and SIGBUS end the function instead of the process.
#pragma once

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdint>

namespace kerncap::softgpu {

// What ended a guarded function.
struct HostFault {
  enum class Reason : std::uint8_t {
    none,
    unmapped,   // nothing there
    read_only,  // a write to what can only be read
    closed,     // neither
    file_end,   // a mapping of a file that has become too short
  };
  std::uint64_t address = 0;
  Reason reason = Reason::none;
  bool is_write = false;

  [[nodiscard]] explicit operator bool() const noexcept { return reason != Reason::none; }
};

// For messages, static: what the program has done to memory that a GPU was given.
[[nodiscard]] const char* text(HostFault::Reason reason) noexcept;

class HostGuard {
 public:
  // Once for the process, before the first guarded(). Handlers that the program has installed keep working for its own
  // faults; one that it installs later must come through replace_program_action() to leave ours in its place.
  static void install() noexcept;

  // Whether a signal's kernel-side handler is ours.
  [[nodiscard]] static bool owns(int signal) noexcept;
  // What sigaction() is to do for a signal that is ours: the program's action is kept here, and gets its own faults as if
  // it were installed: signal mask, SA_NODEFER, SA_RESETHAND and SA_SIGINFO are honoured. Either may be null. 0, or -1 and errno.
  static int replace_program_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept;

  // Runs `function`, which must hold no lock and own nothing that needs a destructor: a fault leaves it by a jump.
  template <typename Function>
  [[nodiscard]] static HostFault guarded(const Function& function) noexcept {
    HostGuard guard;
    guard.m_outer = s_current;
    if (sigsetjmp(guard.m_context, 0) != 0) {
      s_current = guard.m_outer;
      return guard.fault();
    }
    // What the handler reads must be written when an access of an inlined function faults: no call says so to the compiler.
    s_current = &guard;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    function();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    s_current = guard.m_outer;
    return {};
  }

 private:
  HostGuard() = default;
  friend struct HostGuardHandler;

  [[nodiscard]] HostFault fault() const noexcept;

  sigjmp_buf m_context;
  HostGuard* m_outer = nullptr;
  // By the signal handler, before it jumps.
  volatile std::uint64_t m_address = 0;
  volatile int m_signal = 0, m_code = 0;
  volatile bool m_is_write = false;
  static thread_local HostGuard* s_current;
};

}  // namespace kerncap::softgpu
