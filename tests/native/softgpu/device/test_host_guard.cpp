// Faults of the host in guarded code end the code; others go where they went before.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "check.hpp"
#include "softgpu/memory/host_guard.hpp"

using namespace kerncap::softgpu;

namespace {

[[nodiscard]] volatile int* closed_page() {
  return static_cast<volatile int*>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

// Whatever is mapped next may take its place.
[[nodiscard]] volatile int* unmapped_page() {
  volatile int* page = closed_page();
  munmap(const_cast<int*>(page), 4096);
  return page;
}

void a_fault_ends_only_what_is_guarded() {
  volatile int* nowhere = unmapped_page();
  for (int i = 0; i < 3; ++i) {  // the signal can be delivered again
    bool after = false;
    const HostFault fault = HostGuard::guarded([&] {
      (void)*nowhere;
      after = true;
    });
    CHECK(fault.reason == HostFault::Reason::unmapped && !fault.is_write);
    CHECK(fault.address >> 12 == reinterpret_cast<std::uint64_t>(nowhere) >> 12);
    CHECK(!after);
  }
  CHECK(!HostGuard::guarded([] {}));
}

void reasons_are_told_apart() {
  using Reason = HostFault::Reason;
  const int file = memfd_create("short", 0);
  CHECK(ftruncate(file, 4096) == 0);
  auto* page = static_cast<volatile int*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  const auto reason_of = [&](bool write) {
    const HostFault fault = HostGuard::guarded([&] {
      if (write) {
        *page = 1;
      } else {
        (void)*page;
      }
    });
    CHECK(!fault || (fault.is_write == write && fault.address == reinterpret_cast<std::uint64_t>(page)));
    return fault.reason;
  };
  CHECK(reason_of(true) == Reason::none);
  mprotect(const_cast<int*>(page), 4096, PROT_READ);
  CHECK(reason_of(true) == Reason::read_only && reason_of(false) == Reason::none);
  mprotect(const_cast<int*>(page), 4096, PROT_NONE);
  CHECK(reason_of(true) == Reason::closed && reason_of(false) == Reason::closed);
  mprotect(const_cast<int*>(page), 4096, PROT_READ | PROT_WRITE);
  CHECK(ftruncate(file, 0) == 0);
  CHECK(reason_of(true) == Reason::file_end && reason_of(false) == Reason::file_end);
  munmap(const_cast<int*>(page), 4096);
  close(file);
}

void guards_nest() {
  volatile int* nowhere = unmapped_page();
  HostFault inner;
  bool reached = false;
  const auto outer = HostGuard::guarded([&] {
    inner = HostGuard::guarded([&] { (void)*nowhere; });
    reached = true;
    (void)*nowhere;
  });
  CHECK(inner && reached && outer);
}

void each_thread_has_its_own() {
  std::thread threads[4];
  for (auto& thread : threads) {
    thread = std::thread([nowhere = closed_page()] {
      for (int i = 0; i < 200; ++i) CHECK(!!HostGuard::guarded([&] { *nowhere = 1; }));
    });
  }
  for (auto& thread : threads) thread.join();
}

// What a program's own fault does: with its handler, and without.
void faults_of_the_program_are_its_own() {
  const pid_t unhandled = fork();
  if (unhandled == 0) {
    HostGuard::install();
    (void)*unmapped_page();
    _exit(0);
  }
  const pid_t handled = fork();
  if (handled == 0) {
    std::signal(SIGSEGV, [](int) { _exit(42); });
    HostGuard::install();
    (void)*unmapped_page();
    _exit(0);
  }
  int status = 0;
  waitpid(unhandled, &status, 0);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  waitpid(handled, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

// Exit code of a child that replaces its action after ours was installed, and then faults.
template <typename Function>
[[nodiscard]] int status_of(const Function& function) {
  const pid_t child = fork();
  if (child == 0) {
    HostGuard::install();
    function();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

void set(int number, int flags, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = flags | SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGUSR1);
  CHECK(HostGuard::replace_program_action(number, &action, nullptr) == 0);
}

[[nodiscard]] bool is_blocked(int number) {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return sigismember(&blocked, number) == 1;
}

volatile std::uint64_t g_expected = 0;
sigjmp_buf g_back;

void a_later_handler_leaves_ours_in_place() {
  const int seen = status_of([] {
    set(SIGSEGV, 0, [](int, siginfo_t* info, void*) {
      const bool right = reinterpret_cast<std::uint64_t>(info->si_addr) == g_expected;
      _exit(right && is_blocked(SIGSEGV) && is_blocked(SIGUSR1) ? 42 : 1);
    });
    volatile int* nowhere = unmapped_page();
    g_expected = reinterpret_cast<std::uint64_t>(nowhere);
    if (!HostGuard::guarded([&] { (void)*nowhere; })) _exit(2);  // still guarded
    (void)*nowhere;
  });
  CHECK(WIFEXITED(seen) && WEXITSTATUS(seen) == 42);

  const int not_deferred = status_of([] {
    set(SIGSEGV, SA_NODEFER, [](int, siginfo_t*, void*) { _exit(is_blocked(SIGSEGV) ? 1 : 42); });
    (void)*unmapped_page();
  });
  CHECK(WIFEXITED(not_deferred) && WEXITSTATUS(not_deferred) == 42);

  const int once = status_of([] {
    set(SIGSEGV, static_cast<int>(SA_RESETHAND), [](int, siginfo_t*, void*) {});  // the fault comes back, and finds the default
    (void)*unmapped_page();
  });
  CHECK(WIFSIGNALED(once) && WTERMSIG(once) == SIGSEGV);

  const int jumps = status_of([] {
    set(SIGSEGV, 0, [](int, siginfo_t*, void*) { siglongjmp(g_back, 1); });
    volatile int count = 0;
    for (int i = 0; i < 3; ++i) {
      if (sigsetjmp(g_back, 1) == 0) (void)*unmapped_page();
      else count = count + 1;
    }
    _exit(count == 3 && !is_blocked(SIGSEGV) ? 42 : 1);
  });
  CHECK(WIFEXITED(jumps) && WEXITSTATUS(jumps) == 42);

  const int taken_back = status_of([] {
    struct sigaction before {};
    set(SIGBUS, 0, [](int, siginfo_t*, void*) { _exit(42); });
    CHECK(HostGuard::replace_program_action(SIGBUS, nullptr, &before) == 0);
    if ((before.sa_flags & SA_SIGINFO) == 0) _exit(1);
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    CHECK(HostGuard::replace_program_action(SIGBUS, &plain, nullptr) == 0);
    raise(SIGBUS);  // sent, not a fault
  });
  CHECK(WIFSIGNALED(taken_back) && WTERMSIG(taken_back) == SIGBUS);
}

}  // namespace

int main() {
  faults_of_the_program_are_its_own();
  a_later_handler_leaves_ours_in_place();
  HostGuard::install();
  a_fault_ends_only_what_is_guarded();
  reasons_are_told_apart();
  guards_nest();
  each_thread_has_its_own();
  return test::exit_code();
}
