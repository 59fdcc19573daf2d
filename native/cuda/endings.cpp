// The handler runs on a thread of the program's that may hold any lock: it makes no call but those that signal handlers may
// make, waits for a limited time, and then lets the signal do what it would have done.
#include "cuda/endings.hpp"

#include <signal.h>
#include <time.h>

#include <cerrno>

#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

// Not SIGTRAP and SIGSYS, which are debuggers' and filters' means.
constexpr int k_signals[] = {SIGABRT, SIGALRM, SIGBUS,  SIGFPE,  SIGHUP,  SIGILL,    SIGINT,  SIGPIPE, SIGPROF,
                             SIGQUIT, SIGSEGV, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ};
constexpr long k_look_every_ns = 1'000'000;

void end_later(int signal) {
  const int kept_errno = errno;
  const auto limit = tool()->channel->wait_limit();
  for (long waited_ns = 0; tool()->snapshots.sender().is_sending() && waited_ns / 1'000'000 < limit.count();
       waited_ns += k_look_every_ns) {
    const timespec pause{0, k_look_every_ns};
    ::nanosleep(&pause, nullptr);
  }
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  ::sigaction(signal, &usual, nullptr);
  // Blocked while this handler runs: it ends the process when the handler returns, before anything else is done.
  ::raise(signal);
  errno = kept_errno;
}

}  // namespace

void hold_endings(bool on) noexcept {
  struct sigaction ours {};
  ours.sa_handler = end_later;
  ours.sa_flags = SA_ONSTACK;
  sigfillset(&ours.sa_mask);
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  const auto is_expected = [on](const struct sigaction& found) {
    return (found.sa_flags & SA_SIGINFO) == 0 && found.sa_handler == (on ? SIG_DFL : end_later);
  };
  for (const int signal : k_signals) {
    // Asked first: a program's own handler is never out of its place, as the signal would end the program just then.
    struct sigaction before {};
    if (::sigaction(signal, nullptr, &before) != 0 || !is_expected(before)) continue;
    ::sigaction(signal, on ? &ours : &usual, &before);
    if (!is_expected(before)) ::sigaction(signal, &before, nullptr);
  }
}

}  // namespace kerncap::cuda
