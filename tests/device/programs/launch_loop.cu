// Launches a tiny kernel over and over, with some work of its own in between, as frameworks have it; prints what a
// launch takes in each part of the loop. Its target is one launch of another kernel in the middle, so that the loop
// shows what comes before and after a capture.
//
//   launch_loop LAUNCHES PARTS WORK_NS CPU      CPU: the core that the launching thread stays on
#include <sched.h>

#include <chrono>

#include "check.cuh"

__global__ void tiny(float* data) { data[threadIdx.x] += 1.0f; }
__global__ void target(float* data) { data[threadIdx.x] *= 2.0f; }

using Clock = std::chrono::steady_clock;

static void launch(float* data, std::chrono::nanoseconds work) {
  tiny<<<1, 32>>>(data);
  for (const auto end = Clock::now() + work; Clock::now() < end;) {
  }
}

int main(int argc, char** argv) {
  const int launches = argc > 1 ? std::atoi(argv[1]) : 2000;
  const int parts = argc > 2 ? std::atoi(argv[2]) : 20;
  float* data = nullptr;
  CHECK(cudaMalloc(&data, 1024));
  CHECK(cudaMemset(data, 0, 1024));
  const std::chrono::nanoseconds work(argc > 3 ? std::atoi(argv[3]) : 0);
  if (argc > 4) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(std::atoi(argv[4]), &one);
    sched_setaffinity(0, sizeof one, &one);  // where that is refused, it runs on any
  }
  for (int i = 0; i < launches; ++i) launch(data, work);
  for (int part = 0; part < parts; ++part) {
    if (part == parts / 2) target<<<1, 32>>>(data);
    CHECK(cudaDeviceSynchronize());
    const auto begin = Clock::now();
    for (int i = 0; i < launches; ++i) launch(data, work);
    CHECK(cudaDeviceSynchronize());
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    std::printf("part %d launch_us %.4f\n", part, seconds / launches * 1e6);
  }
  return 0;
}
