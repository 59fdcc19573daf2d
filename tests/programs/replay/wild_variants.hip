// Variants of a kernel that do what they should not: the macro says what.
#include "hip_check.hpp"

#ifdef OTHER_ARGUMENTS
extern "C" __global__ void _Z10scale_intoPKfPfi(const float* in, float* out, int count, int more, double last) {
  out[0] = in[0] + static_cast<float>(count + more + last);
}
#else
#ifndef BOUNDED
#define BOUNDED 1024
#endif
extern "C" __global__ __launch_bounds__(BOUNDED) void _Z10scale_intoPKfPfi(const float* in, float* out, [[maybe_unused]] int count) {
#if defined(FAULT)
  *reinterpret_cast<volatile float*>(0x123456789000) = in[0];
#elif defined(SCALAR_FAULT)  // as a kernel that finds a null pointer among its hidden arguments
  int word;
  asm volatile("s_load_dword %0, %1, 0x28\n\ts_waitcnt lgkmcnt(0)" : "=s"(word) : "s"(0ull));
  out[0] = static_cast<float>(word);
#elif defined(HANG)
  while (*static_cast<const volatile float*>(in) >= 0) HIP_KERNEL_WAITS();
#elif defined(TRAP)
  if (count > 0) HIP_KERNEL_TRAPS();
#endif
  out[threadIdx.x] = in[threadIdx.x];
}
#endif
