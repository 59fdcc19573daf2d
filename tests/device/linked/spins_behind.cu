// Of programs/known_times.cu: the kernel launches another one, in STREAM, which takes the time; or, where it ALTERNATES, by the
// clock it may take the time itself. Needs -rdc=true and cudadevrt.
#include "../programs/spin.cuh"

__global__ void waits(int* runs) { spin(200'000), *runs += 1; }

__global__ void takes_200_us(int* runs) {
#ifdef ALTERNATES
  long long now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  if (now / 1'024 % 4 == 0) {
    spin(200'000), *runs += 1;
    return;
  }
#endif
  waits<<<1, 1, 0, STREAM>>>(runs);
}
