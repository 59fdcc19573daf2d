// Prints how long it took from the process's start to the end of its first kernel.
#include <unistd.h>

#include <fstream>
#include <string>

#include <time.h>

#include "check.cuh"

__global__ void first(int* data) { data[threadIdx.x] = 1; }

int main() {
  int* data = nullptr;
  CHECK(cudaMalloc(&data, 128));
  first<<<1, 32>>>(data);
  CHECK(cudaDeviceSynchronize());
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  std::string text;
  std::getline(std::ifstream("/proc/self/stat"), text);
  // The 22nd field is the start, in ticks since the machine's; the second, the name, may hold spaces.
  std::size_t at = text.rfind(')') + 2;
  for (int field = 3; field < 22; ++field) at = text.find(' ', at) + 1;
  const double start = std::stod(text.substr(at)) / static_cast<double>(sysconf(_SC_CLK_TCK));
  std::printf("started_s %.3f\n", static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - start);
  return 0;
}
