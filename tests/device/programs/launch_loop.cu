// Launches a tiny kernel over and over, with some work of its own in between, as frameworks have it. Answers each line
// of its standard input: "part" by what a launch took in one part of the loop, in microseconds; "target" by 0, once
// another kernel has been launched once, so that the parts before and behind show what a capture costs.
//
//   launch_loop LAUNCHES ROUNDS CPU
//
// ROUNDS: of that work, about 1.3 ns each; a clock takes too long to read, and would round it. CPU: the core that the
// launching thread stays on.
#include <sched.h>

#include <chrono>
#include <cstring>

#include "check.cuh"

__global__ void tiny(float* data) { data[threadIdx.x] += 1.0f; }
__global__ void target(float* data) { data[threadIdx.x] *= 2.0f; }

using Clock = std::chrono::steady_clock;

static double launch(float* data, int launches, int rounds) {
  unsigned long long state = 1;
  const auto begin = Clock::now();
  for (int i = 0; i < launches; ++i) {
    tiny<<<1, 32>>>(data);
    for (int round = 0; round < rounds; ++round) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      asm volatile("" : "+r"(state));   // each round waits for the one before, and none is left out
    }
  }
  CHECK(cudaDeviceSynchronize());
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / launches;
}

int main(int argc, char** argv) {
  const int launches = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 0;
  float* data = nullptr;
  CHECK(cudaMalloc(&data, 1024));
  CHECK(cudaMemset(data, 0, 1024));
  if (argc > 3) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(std::atoi(argv[3]), &one);
    sched_setaffinity(0, sizeof one, &one);  // where that is refused, it runs on any
  }
  for (char line[80]; std::fgets(line, sizeof line, stdin) != nullptr;) {
    double us = 0;
    if (std::strcmp(line, "target\n") == 0) {
      target<<<1, 32>>>(data);
      CHECK(cudaDeviceSynchronize());
    } else {
      launch(data, launches / 5, rounds);  // whoever had its turn before used the core's caches, and the GPU
      us = launch(data, launches, rounds);
    }
    std::printf("%.4f\n", us);
    std::fflush(stdout);
  }
  return 0;
}
