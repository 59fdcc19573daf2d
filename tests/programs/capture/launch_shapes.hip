// One kernel, launched first in a large shape, then in a small one.
#include "hip_check.hpp"

__global__ void count(unsigned* words) { atomicAdd(words + blockIdx.x, 1U); }

int main() {
  Tally tally("launch_shapes");
  const DeviceArray<unsigned> words(std::vector<unsigned>(8, 0));
  count<<<dim3(8, 2), 64>>>(words.get());
  count<<<1, 64>>>(words.get());
  HIP_DONE();
  tally.equal("words", words.read(), std::vector<unsigned>{192, 128, 128, 128, 128, 128, 128, 128});
  return tally.finish();
}
