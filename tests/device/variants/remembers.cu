// known_times.cu's kernel, which takes the time only if its last run has left nothing.
// WAY is where it looks, and leaves a mark: 0 in local memory, 1 on the stack of a function that calls itself
#include "ways.cuh"

#ifndef WORDS
#define WORDS 64
#endif

constexpr int k_mark = 0x5EED1234;

__device__ __noinline__ int look(int* runs, int depth) {
  volatile int words[WORDS];
  int found = 0;
  for (int i = 0; i < WORDS; ++i) found += words[i] == k_mark;
  for (int i = 0; i < WORDS; ++i) words[i] = k_mark;
  if (WAY == 1 && depth != 0) found += look(runs, depth - 1);
  return found + (words[*runs & (WORDS - 1)] == k_mark ? 0 : 1);
}

__global__ void takes_200_us(int* runs) {
  if (look(runs, WAY == 1 ? (*runs & 1) + 1 : 0) == 0) spin(NS);
  *runs += 1;
}
