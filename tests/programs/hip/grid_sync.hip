// Cooperative groups: all work-groups of a grid wait for each other; only then may they read each other's results.
#include <hip/hip_cooperative_groups.h>

#include "hip_check.hpp"

constexpr int k_threads = 64;

// HIP sets up the device's heap at the first launch of a kernel that could use it (at -O0 each could) and waits for
// that; in a cooperative launch it has by then laid out the grid's barrier in memory that the wait gives back. So
// the first launch of the process is an ordinary one.
__global__ void use_heap(int** out) { *out = new int(5); }

__global__ void rotate_sums(int* a, int* b, int rounds, int count) {
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  const int i = static_cast<int>(grid.thread_rank());
  for (int round = 0; round < rounds; ++round) {
    b[i] = a[i] + a[(i + k_threads) % count];  // written by another work-group in the round before
    grid.sync();
    a[i] = b[(i + 2 * k_threads + 1) % count];
    grid.sync();
  }
}

int main() {
  constexpr int k_blocks = 8, k_count = k_blocks * k_threads;
  const DeviceArray<int*> made(1);
  use_heap<<<1, 1>>>(made.get());
  HIP_DONE();
  int rounds = 5, count = k_count;
  std::vector<int> a(k_count), b(k_count);
  for (int i = 0; i < k_count; ++i) a[i] = i % 23;
  const DeviceArray<int> device_a(a), device_b(k_count);
  int *pointer_a = device_a.get(), *pointer_b = device_b.get();
  void* arguments[] = {&pointer_a, &pointer_b, &rounds, &count};
  HIP_OK(hipLaunchCooperativeKernel(reinterpret_cast<void*>(rotate_sums), dim3(k_blocks), dim3(k_threads), arguments, 0,
                                    nullptr));
  HIP_DONE();
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < k_count; ++i) b[i] = a[i] + a[(i + k_threads) % k_count];
    for (int i = 0; i < k_count; ++i) a[i] = b[(i + 2 * k_threads + 1) % k_count];
  }
  Tally tally("grid_sync");
  tally.equal("a", device_a.read(), a);
  return tally.finish();
}
