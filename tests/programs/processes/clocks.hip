// Prints, for each of five launches, how many seconds both clocks of the device went on since the first, and within the launch.
#include "hip_check.hpp"

constexpr unsigned k_launches = 5;

__global__ void read_clocks(long long* out) {
  out[0] = clock64();
  out[1] = wall_clock64();
  out[2] = wall_clock64() - out[1];
}

int main() {
  long long* out;
  HIP_OK(hipMalloc(&out, 3 * sizeof(long long)));
  long long host[3], first[2] = {0, 0};
  for (unsigned i = 0; i < k_launches; ++i) {
    read_clocks<<<1, 1>>>(out);
    HIP_OK(hipMemcpy(host, out, sizeof host, hipMemcpyDeviceToHost));
    if (i == 0) first[0] = host[0], first[1] = host[1];
    std::printf("%lld %lld %lld\n", (host[0] - first[0]) / 1'000'000'000, (host[1] - first[1]) / 100'000'000, host[2] / 100'000'000);
  }
  HIP_DONE();
  return 0;
}
