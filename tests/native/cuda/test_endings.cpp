// Signals that would end the program wait for a state that is on its way; those that the program handles, or ignores, are its own at
// every moment. A moment in which they are not ends this test.
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "stub_cuda.hpp"

#include "cuda/endings.hpp"

using namespace kerncap::test;

namespace {

constexpr int k_toggles = 20'000;
std::atomic<int> g_handled{0};

using Handler = void (*)(int);
Handler handler_of(int signal) {
  struct sigaction now {};
  CHECK(sigaction(signal, nullptr, &now) == 0);
  return now.sa_handler;
}

}  // namespace

int main() {
  signal(SIGUSR1, [](int) { ++g_handled; });
  signal(SIGHUP, SIG_IGN);
  const pthread_t self = pthread_self();
  std::atomic<bool> is_over{false};
  int sent = 0;
  std::thread sender([&] {
    for (; !is_over; ++sent) {
      pthread_kill(self, SIGUSR1);
      pthread_kill(self, SIGHUP);
    }
  });
  for (int i = 0; i < k_toggles; ++i) {
    kerncap::cuda::hold_endings(true);
    kerncap::cuda::hold_endings(false);
  }
  is_over = true;
  sender.join();
  CHECK(sent > 100 && g_handled > 100);
  CHECK(handler_of(SIGTERM) == SIG_DFL);
  kerncap::cuda::hold_endings(true);
  CHECK(handler_of(SIGTERM) != SIG_DFL && handler_of(SIGTERM) != SIG_IGN);
  CHECK(handler_of(SIGHUP) == SIG_IGN);
  kerncap::cuda::hold_endings(false);
  CHECK(handler_of(SIGTERM) == SIG_DFL);
  return kerncap::test::exit_code();
}
