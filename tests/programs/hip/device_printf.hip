// printf from the device arrives on standard output, every line of it once.
#include <unistd.h>

#include <algorithm>
#include <string>

#include "hip_check.hpp"

__global__ void speak(int base) {
  const int id = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  printf("lane %d of %d: %.3f %s %c %lld %x\n", id, base, id * 0.125, id % 2 ? "odd" : "even", 'a' + id % 26,
         1000000000000ll + id, static_cast<unsigned>(id) * 0x01010101u);
}

int main() {
  constexpr int k_lanes = 96;
  std::FILE* file = std::tmpfile();
  const int standard_output = dup(1);
  if (file == nullptr || standard_output < 0 || dup2(fileno(file), 1) < 0) return 1;
  speak<<<2, k_lanes / 2>>>(7);
  HIP_DONE();
  std::fflush(stdout);
  dup2(standard_output, 1);

  std::vector<std::string> got, wanted;
  std::rewind(file);
  char line[256];
  while (std::fgets(line, sizeof line, file) != nullptr) got.emplace_back(line);
  for (int id = 0; id < k_lanes; ++id) {
    std::snprintf(line, sizeof line, "lane %d of %d: %.3f %s %c %lld %x\n", id, 7, id * 0.125, id % 2 ? "odd" : "even",
                  'a' + id % 26, 1000000000000ll + id, static_cast<unsigned>(id) * 0x01010101u);
    wanted.emplace_back(line);
  }
  std::sort(got.begin(), got.end());
  std::sort(wanted.begin(), wanted.end());
  Tally tally("device_printf");
  tally.equal("lines", 0, got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size() && i < wanted.size(); ++i)
    tally.expect(got[i] == wanted[i], got[i].c_str(), i, 0, 1);
  return tally.finish();
}
