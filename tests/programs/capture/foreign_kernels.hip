// A function, a kernel that leaves its address in memory, and one that calls what it finds there.
#include <hip/hip_runtime.h>

__device__ __attribute__((noinline)) unsigned add_five(unsigned value) { return value + 5; }

extern "C" __global__ void remember(unsigned (**slot)(unsigned)) { *slot = add_five; }
extern "C" __global__ void call(unsigned (**slot)(unsigned), unsigned* word) {
  if (threadIdx.x == 0) *word = (*slot)(*word);
}
