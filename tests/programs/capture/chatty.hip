// A thread and a child process write numbered lines, each with one write, while the target is dispatched with MIB
// mebibytes of device memory. usage: chatty MIB
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "hip_check.hpp"

__global__ void target(unsigned* word) { *word += 1; }

namespace {

void say(const char* who, int number) {
  char line[64];
  const int length = std::snprintf(line, sizeof line, "%s %06d\n", who, number);
  if (write(STDOUT_FILENO, line, static_cast<std::size_t>(length)) != length) _exit(1);
  usleep(1000);
}

}  // namespace

int main(int, char** argv) {
  const pid_t child = fork();
  if (child == 0) {
    for (int number = 0;; ++number) say("child", number);
  }
  std::atomic<bool> ended{false};
  std::thread talker([&ended] {
    for (int number = 0; !ended; ++number) say("thread", number);
  });
  {
    std::vector<unsigned> values((std::strtoull(argv[1], nullptr, 10) << 20) / sizeof(unsigned));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<unsigned>(i) * 2654435761U;
    const DeviceArray<unsigned> data(values);
    target<<<1, 1>>>(data.get());
    HIP_DONE();
  }
  ended = true;
  talker.join();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return 0;
}
