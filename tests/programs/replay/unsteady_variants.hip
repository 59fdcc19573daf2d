// Variants of idempotent.hip's kernel that have memory of their own: the macro says what they do with it.
#include "hip_check.hpp"

__device__ unsigned int kept;

// How often this was called before, by one thread of each launch.
__device__ unsigned int call() { return atomicAdd(&kept, 1u); }

__global__ void scale_into(const float* in, float* out, int count) {
  [[maybe_unused]] const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
#if defined(NOW_AND_THEN)                   // one element is wrong in one of four launches
  const float factor = i == 0 && call() % 4 == 3 ? 2.5f : 1.5f;
  if (i < count) out[i] = (in[i] + (i == 0 ? 1.0f : 0.0f)) * factor - (i == 0 ? 1.5f : 0.0f);
#elif defined(FIRST_ONLY)                   // only the first launch writes the last element
  if (i < count && (i != count - 1 || call() == 0)) out[i] = in[i] * 1.5f;
#elif defined(TICKETS) || defined(TICKETS_KEPT)
  // The last block to come does all the work. The counter ends as it began, or goes on.
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
#ifdef TICKETS
    is_last = atomicInc(&kept, gridDim.x - 1) == gridDim.x - 1;
#else
    is_last = call() == gridDim.x - 1;
#endif
  }
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); is_last && at < count; at += static_cast<int>(blockDim.x)) {
    out[at] = in[at] * 1.5f;
  }
#elif defined(FAULTS_LATER) || defined(HANGS_LATER)
  if (i < count) out[i] = in[i] * 1.5f;
  if (i != 0 || call() == 0) return;
#ifdef FAULTS_LATER
  *reinterpret_cast<volatile float*>(0x123456789000) = 1;
#else
  while (*static_cast<const volatile float*>(in) >= 0) HIP_KERNEL_WAITS();
#endif
#endif
}
