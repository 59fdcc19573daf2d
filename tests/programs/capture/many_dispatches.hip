// BEFORE dispatches of `other`, then TARGETS dispatches of `target`; each adds one to a word of its own.
// Prints how many dispatches a second went through, and before that when it has launched 100,000.
// A third argument: the program kills itself at its end.
#include <chrono>
#include <csignal>

#include "hip_check.hpp"

__global__ void other(unsigned* word) { *word += 1; }
__global__ void target(unsigned* word) { *word += 1; }

int main(int argc, char** argv) {
  const unsigned before = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 10000;
  const unsigned targets = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  Tally tally("many_dispatches");
  const DeviceArray<unsigned> words(std::vector<unsigned>(2, 0));
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned i = 0; i < before; ++i) {
    other<<<1, 1>>>(words.get());
    if (i == 100'000) {
      std::puts("100000 launched");
      std::fflush(stdout);
    }
  }
  for (unsigned i = 0; i < targets; ++i) target<<<1, 1>>>(words.get() + 1);
  HIP_DONE();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  tally.equal("words", words.read(), std::vector<unsigned>{before, targets});
  std::printf("dispatches_per_s %.0f\n", (before + targets) / took.count());
  if (argc > 3) raise(SIGKILL);
  return tally.finish();
}
