// Children of all kinds know that they are not the process that we were loaded into.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.hpp"
#include "cuda/own_process.hpp"

using namespace kerncap::cuda;

namespace {

// What the child found: 0 when nothing of ours would run in it.
int asked_in(pid_t child, const OwnProcess& process) {
  if (child == 0) _exit((process.is_ours ? 1 : 0) + (process.enabled ? 2 : 0));
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

int main() {
  OwnProcess* process = make_own_process();
  CHECK(process != nullptr);
  process->enabled = true;
  CHECK(asked_in(::fork(), *process) == 0);
  CHECK(asked_in(::_Fork(), *process) == 0);
  CHECK(asked_in(static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)), *process) == 0);
  CHECK(process->is_ours && process->enabled);
  return kerncap::test::exit_code();
}
