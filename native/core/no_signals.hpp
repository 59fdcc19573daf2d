// Threads of ours in the user's program are deaf to its signals.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace kerncap::core {

// While one lives, the calling thread takes no signals, and a thread that it starts never does: the mask is inherited.
class NoSignals {
 public:
  enum class Faults { blocked, delivered };   // delivered: the thread may fault, and somebody handles that

  explicit NoSignals(Faults faults = Faults::blocked) noexcept {
    sigset_t all;
    sigfillset(&all);
    if (faults == Faults::delivered) {
      for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigdelset(&all, fault);
    }
    pthread_sigmask(SIG_SETMASK, &all, &m_before);
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &m_before, nullptr); }

 private:
  sigset_t m_before;
};

}  // namespace kerncap::core
