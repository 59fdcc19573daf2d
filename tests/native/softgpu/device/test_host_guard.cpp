// Faults of the host in guarded code end the code; others go where they went before.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "check.hpp"
#include "softgpu/memory/host_guard.hpp"

using namespace kerncap::softgpu;

namespace {

[[nodiscard]] volatile int* unmapped_page() {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(page, 4096);
  return static_cast<volatile int*>(page);
}

void a_fault_ends_only_what_is_guarded() {
  volatile int* nowhere = unmapped_page();
  for (int i = 0; i < 3; ++i) {  // the signal can be delivered again
    bool after = false;
    const auto address = HostGuard::guarded([&] {
      (void)*nowhere;
      after = true;
    });
    CHECK(address >> 12 == reinterpret_cast<std::uint64_t>(nowhere) >> 12);
    CHECK(!after);
  }
  CHECK(HostGuard::guarded([] {}) == 0);
}

void guards_nest() {
  volatile int* nowhere = unmapped_page();
  std::uint64_t inner = 0;
  bool reached = false;
  const auto outer = HostGuard::guarded([&] {
    inner = HostGuard::guarded([&] { (void)*nowhere; });
    reached = true;
    (void)*nowhere;
  });
  CHECK(inner != 0 && reached && outer != 0);
}

void each_thread_has_its_own() {
  volatile int* nowhere = unmapped_page();
  std::thread threads[4];
  for (auto& thread : threads) {
    thread = std::thread([&] {
      for (int i = 0; i < 200; ++i) CHECK(HostGuard::guarded([&] { *nowhere = 1; }) != 0);
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

}  // namespace

int main() {
  faults_of_the_program_are_its_own();
  HostGuard::install();
  a_fault_ends_only_what_is_guarded();
  guards_nest();
  each_thread_has_its_own();
  return test::exit_code();
}
