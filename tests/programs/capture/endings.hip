// One `target`, then the end that the first argument names. The second may be `early`: no target before it; or `large`:
// with more memory than is sent in a moment. Before the ends by `fault` and `trap`, kernels that the device ends, there are
// 50 more that nobody waits for.
#include <csignal>
#include <cstdlib>
#include <string_view>

#include <unistd.h>

#include "hip_check.hpp"

__global__ void setup_data(int* data) { data[threadIdx.x] = static_cast<int>(threadIdx.x); }
__global__ void target(int* data) { data[threadIdx.x] *= 3; }
__global__ void read_nowhere(int* data, const int* nowhere) { data[threadIdx.x] += *nowhere; }
__global__ void trap() { HIP_KERNEL_TRAPS(); }

int main(int argc, char** argv) {
  const std::string_view how = argv[1];
  const std::string_view what = argc > 2 ? argv[2] : "";
  if (how == "handled") {
    std::signal(SIGSEGV, [](int) { _exit(9); });
  }
  const DeviceArray<int> data(64);
  DeviceArray<char> more(what == "large" ? 80 << 20 : 1);
  more.clear();
  setup_data<<<1, 64>>>(data.get());
  HIP_DONE();
  if (what != "early") {
    target<<<1, 64>>>(data.get());
    HIP_DONE();
  }
  if (how == "fault" || how == "trap") {
    for (int i = 0; i < 50; ++i) target<<<1, 64>>>(data.get());
    if (how == "trap") trap<<<1, 1>>>();
    if (how == "fault") read_nowhere<<<1, 64>>>(data.get(), reinterpret_cast<const int*>(0x1000));
    HIP_DONE();
  }
  if (how == "crash") {
    int* volatile nowhere = nullptr;
    *nowhere = 1;
  }
  if (how == "raise" || how == "handled") raise(SIGSEGV);
  if (how == "abort") std::abort();
  if (how == "_exit") _exit(7);
  if (how == "quick") std::quick_exit(0);
  if (how == "ended") raise(SIGTERM);
  if (how == "alarm") raise(SIGALRM);
  if (how == "kill") raise(SIGKILL);
  return 0;
}
