// A failed assert in a kernel ends the program with the expression on standard error; one that holds does nothing.
#undef NDEBUG
#include <sys/wait.h>
#include <unistd.h>

#include <cassert>
#include <string>

#include "hip_check.hpp"

__global__ void check_all(const int* values) { assert(values[threadIdx.x] < 50); }

// The exit status of a process that runs the kernel with one value, and what it wrote to standard error.
int run_with(int value, std::string& text) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {  // before any use of HIP: the runtime does not survive a fork
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    const DeviceArray<int> values(std::vector<int>(64, value));
    check_all<<<1, 64>>>(values.get());
    std::_Exit(hipDeviceSynchronize() == hipSuccess ? 0 : 3);
  }
  close(ends[1]);
  char piece[512];
  for (ssize_t size; (size = read(ends[0], piece, sizeof piece)) > 0;) text.append(piece, static_cast<std::size_t>(size));
  close(ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

int main() {
  Tally tally("device_assert");
  std::string silent, loud;
  tally.equal("status when it holds", 0, run_with(49, silent), 0);
  const int status = run_with(50, loud);
  tally.expect(status != 0, "status when it fails", 0, status, 1);
  tally.expect(silent.find("Assertion") == std::string::npos, "text when it holds", 0, 1, 0);
  tally.expect(loud.find("values[threadIdx.x] < 50") != std::string::npos, "text when it fails", 0, 0, 1);
  if (loud.find("values[threadIdx.x] < 50") == std::string::npos) std::fprintf(stderr, "%s\n", loud.c_str());
  return tally.finish();
}
