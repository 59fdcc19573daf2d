// A kernel whose metadata says something of every kind: arguments by value and by address, LDS, a required size.
#include <hip/hip_runtime.h>

struct Triple {
  float x, y, z;
};

extern "C" __global__ void __launch_bounds__(128) described(const float* __restrict__ from, float* to, Triple triple,
                                                             short count) {
  __shared__ float row[96];
  extern __shared__ float more[];
  row[threadIdx.x % 96] = from[threadIdx.x] * triple.x;
  more[threadIdx.x] = triple.z;
  __syncthreads();
  if (threadIdx.x < static_cast<unsigned>(count)) to[threadIdx.x] = row[95 - threadIdx.x % 96] + more[threadIdx.x];
}
