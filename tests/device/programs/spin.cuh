// A kernel's time by the device's own clock.
#pragma once

__device__ void spin(long long ns) {
  long long begin = 0;
  long long now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}
