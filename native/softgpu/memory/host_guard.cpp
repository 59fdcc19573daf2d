#include "softgpu/memory/host_guard.hpp"

#include <csignal>
#include <mutex>

namespace kerncap::softgpu {

// Initial-exec storage: a signal handler must not allocate it on first use.
[[gnu::tls_model("initial-exec")]] thread_local HostGuard* HostGuard::s_current = nullptr;

namespace {

struct sigaction g_previous_segv, g_previous_bus;

void pass_on(int number, siginfo_t* info, void* context) noexcept {
  const struct sigaction& previous = number == SIGBUS ? g_previous_bus : g_previous_segv;
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(number, info, context);
  } else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
    // Back to the default: the faulting instruction runs again and ends the process as it would have without us.
    std::signal(number, SIG_DFL);
  } else {
    previous.sa_handler(number);
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
    guard->m_address = reinterpret_cast<std::uint64_t>(info->si_addr);
    siglongjmp(guard->m_context, 1);
  }
};

void HostGuard::install() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = HostGuardHandler::on_signal;
    // Not deferred: the jump out of the handler must leave the signal deliverable.
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &g_previous_segv);
    sigaction(SIGBUS, &action, &g_previous_bus);
  });
}

}  // namespace kerncap::softgpu
