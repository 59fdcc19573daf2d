// LDS whose size is chosen at launch, beside a fixed array, up to all of it.
#include "hip_check.hpp"

__global__ void reverse(const int* in, int* out, int count) {
  extern __shared__ int dynamic[];
  __shared__ int fixed[4];
  if (threadIdx.x < 4) fixed[threadIdx.x] = static_cast<int>(threadIdx.x) * 1000;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) dynamic[i] = in[i];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
    out[i] = dynamic[count - 1 - i] + fixed[i % 4];
}

int main() {
  Tally tally("dynamic_lds");
  for (const int count : {1, 100, 4000, 16000}) {
    std::vector<int> in(count), wanted(count);
    for (int i = 0; i < count; ++i) in[i] = i * 7;
    for (int i = 0; i < count; ++i) wanted[i] = in[count - 1 - i] + i % 4 * 1000;
    const DeviceArray<int> device_in(in), out(count);
    reverse<<<1, 256, count * sizeof(int)>>>(device_in.get(), out.get(), count);
    HIP_DONE();
    tally.equal("out", out.read(), wanted);
  }
  return tally.finish();
}
