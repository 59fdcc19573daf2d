// One kernel as an autotuner launches it: a trial in each of three configurations, then the best, the second, four times.
// Two of them have one grid.
#include "hip_check.hpp"

__global__ void tuned(unsigned* counts) { atomicAdd(&counts[blockIdx.x], 1u); }

int main() {
  Tally tally("configurations");
  const DeviceArray<unsigned> counts(std::vector<unsigned>(8, 0));
  tuned<<<8, 64>>>(counts.get());
  tuned<<<4, 128>>>(counts.get());
  tuned<<<4, 64>>>(counts.get());
  for (int i = 0; i < 4; ++i) tuned<<<4, 128>>>(counts.get());
  HIP_DONE();
  const unsigned all = 64 + 5 * 128 + 64;
  tally.equal("counts", counts.read(), std::vector<unsigned>{all, all, all, all, 64, 64, 64, 64});
  return tally.finish();
}
