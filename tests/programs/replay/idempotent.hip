// The same kernel twice on the same data: the second time it writes what is there already. Variants: NOTHING does
// nothing, TALKS prints, ASSERTS fails an assertion.
#undef NDEBUG
#include <cassert>

#include "hip_check.hpp"

__global__ void scale_into(const float* in, float* out, int count) {
#ifdef NOTHING
  return;
#endif
#ifdef TALKS
  if (blockIdx.x + threadIdx.x == 0) printf("scaled %d values in %u blocks of %u\n", count, gridDim.x, blockDim.x);
#endif
#ifdef ASSERTS
  assert(count == 17);
#endif
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = in[i] * 1.5f;
}

int main() {
  constexpr int k_count = 3000;
  std::vector<float> values(k_count), wanted(k_count);
  for (int i = 0; i < k_count; ++i) values[i] = static_cast<float>(i), wanted[i] = values[i] * 1.5f;
  const DeviceArray<float> in(values), out(k_count);
  for (int round = 0; round < 2; ++round) {
    scale_into<<<(k_count + 127) / 128, 128>>>(in.get(), out.get(), k_count);
    HIP_DONE();
  }
  Tally tally("idempotent");
  tally.equal("out", out.read(), wanted);
  return tally.finish();
}
