// Kernels for the programs that use HSA without HIP: compiled for the device only.
#include <hip/hip_runtime.h>

__device__ int words_global = 1;

extern "C" __global__ void other(unsigned* word) {
  if (threadIdx.x == 0 && blockIdx.x == 0) *word += 1;
}
extern "C" __global__ void target(unsigned* word) {
  if (threadIdx.x == 0 && blockIdx.x == 0) *word += 1;
}
extern "C" __global__ void spin_until_set(volatile unsigned* flag) {
  while (*flag == 0) {
  }
}
// Takes an argument and never reads it.
extern "C" __global__ void unread(unsigned*) {}
