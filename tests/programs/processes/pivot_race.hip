// Races as programs have them: behind a barrier every wave reads what the first one overwrites a little later without another
// barrier: some instructions later (blocked factorisations), or as soon as it has read it (a counter of a work-group).
// Right where waves leave a barrier nearly together and wait for memory as they do on hardware, wrong where one runs ahead.
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

__global__ void add_counts(int* sums) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  int sum = 0;
  for (int step = 0; step < k_steps; ++step) {
    __syncthreads();
    const int seen = count;
    sum += seen;
    if (threadIdx.x == 0) count = seen + 1;
  }
  sums[blockIdx.x * k_threads + threadIdx.x] = sum;
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

  const std::vector<int> sums(k_blocks * k_threads, k_steps * (k_steps - 1) / 2);
  const DeviceArray<int> device_sums(sums.size());
  add_counts<<<k_blocks, k_threads>>>(device_sums.get());
  HIP_DONE();
  tally.equal("sums", device_sums.read(), sums);
  return tally.finish();
}
