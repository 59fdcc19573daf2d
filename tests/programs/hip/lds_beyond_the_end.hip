// Accesses beyond a work-group's LDS: reads give 0, writes and atomics do nothing, and what lies inside is as it was. Libraries count
// on it. LDS is given out in blocks of 512 bytes, so what lies between the size asked for and the block's end is memory.
#include "hip_check.hpp"

constexpr int k_block_ints = 512 / 4, k_results = 6;

__global__ void reach(int* out, int edge, int far_away) {
  extern __shared__ int lds[];
  volatile int* words = lds;
  for (int i = 0; i < k_block_ints; ++i) words[i] = i + 1;
  words[edge] = 7;
  words[far_away] = 8;
  out[0] = words[edge];
  out[1] = words[far_away];
  out[2] = words[edge - 1];  // the block's last
  out[3] = atomicAdd(&lds[edge], 5);
  out[4] = words[edge];
  int sum = 0;
  for (int i = 0; i < k_block_ints; ++i) sum += words[i];
  out[5] = sum;
}

int main() {
  const DeviceArray<int> out(k_results);
  reach<<<1, 1, 100>>>(out.get(), k_block_ints, 0xF00000 / 4);
  HIP_DONE();
  Tally tally("lds_beyond_the_end");
  tally.equal("what came back", out.read(), std::vector<int>{0, 0, k_block_ints, 0, 0, k_block_ints * (k_block_ints + 1) / 2});
  return tally.finish();
}
