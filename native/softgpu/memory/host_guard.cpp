#include "softgpu/memory/host_guard.hpp"

#include <dlfcn.h>
#include <ucontext.h>

#include <atomic>
#include <csignal>
#include <mutex>

#include "softgpu/memory/readable.hpp"

namespace kerncap::softgpu {

// Initial-exec storage: a signal handler must not allocate it on first use.
[[gnu::tls_model("initial-exec")]] thread_local HostGuard* HostGuard::s_current = nullptr;

namespace {

// What the program wants for one of our signals. Read and written within signal handlers too, and in the child of a fork, so
// without a lock: a new value is written beside the old one and published by its index.
class ProgramAction {
 public:
  void set(const struct sigaction& action) noexcept {
    const unsigned next = m_taken.fetch_add(1, std::memory_order_relaxed) % k_slots;
    m_slots[next] = action;
    m_current.store(next, std::memory_order_release);
  }
  [[nodiscard]] struct sigaction get() const noexcept { return m_slots[m_current.load(std::memory_order_acquire)]; }

 private:
  static constexpr unsigned k_slots = 16;  // a reader would have to sleep through fifteen changes
  struct sigaction m_slots[k_slots]{};
  std::atomic<unsigned> m_taken{1}, m_current{0};
};

constinit ProgramAction g_segv, g_bus;
std::atomic<bool> g_installed{false};

[[nodiscard]] ProgramAction& program_action(int number) noexcept { return number == SIGBUS ? g_bus : g_segv; }

[[nodiscard]] bool is_default(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) == 0 && (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN);
}

// The kernel's own call: what the C library's name leads to may be our hook.
int kernel_sigaction(int number, const struct sigaction* action, struct sigaction* old) noexcept {
  using Function = int (*)(int, const struct sigaction*, struct sigaction*);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "sigaction"));
  return (real != nullptr ? real : &sigaction)(number, action, old);
}

void pass_on(int number, siginfo_t* info, void* context) noexcept {
  const struct sigaction wanted = program_action(number).get();
  if (is_default(wanted)) {
    if (wanted.sa_handler == SIG_IGN && info->si_code <= 0) return;  // sent, and ignored; a fault cannot be
    // Back to the default: the faulting instruction runs again and ends the process as it would have without us.
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    kernel_sigaction(number, &plain, nullptr);
    if (info->si_code <= 0) raise(number);  // one that was sent does not come again by itself
    return;
  }
  // The mask that the kernel would have set; it is put back when the handler returns.
  sigset_t blocked = wanted.sa_mask;
  if ((wanted.sa_flags & SA_NODEFER) == 0) sigaddset(&blocked, number);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  if ((wanted.sa_flags & SA_RESETHAND) != 0) program_action(number).set({});
  if ((wanted.sa_flags & SA_SIGINFO) != 0) {
    wanted.sa_sigaction(number, info, context);
  } else {
    wanted.sa_handler(number);
  }
}

}  // namespace

struct HostGuardHandler {
  static void on_signal(int number, siginfo_t* info, void* context) {
    HostGuard* guard = HostGuard::s_current;
    if (guard == nullptr || info->si_code <= 0) {  // not ours, or sent by kill()
      pass_on(number, info, context);
      return;
    }
    constexpr greg_t k_was_write = 2;  // of the processor's error code for page faults
    guard->m_address = reinterpret_cast<std::uint64_t>(info->si_addr);
    guard->m_signal = number;
    guard->m_code = info->si_code;
    guard->m_is_write = (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & k_was_write) != 0;
    siglongjmp(guard->m_context, 1);
  }
};

const char* text(HostFault::Reason reason) noexcept {
  switch (reason) {
    case HostFault::Reason::none: break;
    case HostFault::Reason::unmapped: return "memory that the program has unmapped";
    case HostFault::Reason::read_only: return "memory that the program may only read";
    case HostFault::Reason::closed: return "memory that the program has closed to all access";
    case HostFault::Reason::file_end: return "memory beyond the end of the program's file";
  }
  return "";
}

HostFault HostGuard::fault() const noexcept {
  using Reason = HostFault::Reason;
  const std::uint64_t address = m_address;
  if (m_signal == SIGBUS) return {address, Reason::file_end, m_is_write};
  if (m_code != SEGV_ACCERR) return {address, Reason::unmapped, m_is_write};
  return {address, m_is_write && is_readable(address, address + 1) ? Reason::read_only : Reason::closed, m_is_write};
}

void HostGuard::install() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {}, before {};
    action.sa_sigaction = HostGuardHandler::on_signal;
    // Not deferred: the jump out of the handler must leave the signal deliverable.
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (const int number : {SIGSEGV, SIGBUS}) {
      if (kernel_sigaction(number, nullptr, &before) == 0) program_action(number).set(before);
      kernel_sigaction(number, &action, nullptr);
    }
    g_installed.store(true, std::memory_order_release);
  });
}

bool HostGuard::owns(int signal) noexcept {
  return (signal == SIGSEGV || signal == SIGBUS) && g_installed.load(std::memory_order_acquire);
}

int HostGuard::replace_program_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept {
  const struct sigaction before = program_action(signal).get();
  if (action != nullptr) program_action(signal).set(*action);
  if (old != nullptr) *old = before;
  return 0;
}

}  // namespace kerncap::softgpu
