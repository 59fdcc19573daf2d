// A race as blocked factorisations have it: behind a barrier every wave reads the pivot, which the first one overwrites some
// instructions later without another barrier. Right where waves leave a barrier nearly together, wrong where one runs ahead.
#include <cmath>

#include "hip_check.hpp"

constexpr int k_threads = 256, k_steps = 40, k_blocks = 6;

__global__ void take_roots(double* pivots, double* seen) {
  double* mine = pivots + blockIdx.x * k_steps;
  const int lane = static_cast<int>(threadIdx.x);
  for (int step = 0; step < k_steps; ++step) {
    __syncthreads();
    const double pivot = mine[step];
    seen[(blockIdx.x * k_steps + step) * k_threads + lane] = pivot;
    if (lane == 0) mine[step] = sqrt(pivot);
  }
}

int main() {
  Tally tally("pivot_race");
  std::vector<double> pivots(k_blocks * k_steps), wanted;
  for (std::size_t i = 0; i < pivots.size(); ++i) pivots[i] = 2.0 + static_cast<double>(i);
  for (const double pivot : pivots) wanted.insert(wanted.end(), k_threads, pivot);
  const DeviceArray<double> device_pivots(pivots), device_seen(wanted.size());
  take_roots<<<k_blocks, k_threads>>>(device_pivots.get(), device_seen.get());
  HIP_DONE();
  tally.equal("pivots", device_seen.read(), wanted);
  return tally.finish();
}
