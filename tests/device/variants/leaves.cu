// known_times.cu's kernel, leaving something in the context behind it, or looking for that.
// WAY: 0 leaves a mark in local memory, 1 is right only if it finds one there, 2 allocates memory and keeps it,
// 3 prints, 4 has a limit of the stack that it needs
#include <cstdio>

#include "ways.cuh"

#ifndef WORDS
#define WORDS 2048
#endif

constexpr int k_mark = 0x5EED1234;

__device__ __noinline__ int deep(int* runs, int depth) {
  volatile int words[64];
  for (int i = 0; i < 64; ++i) words[i] = depth + i;
  return depth == 0 ? words[*runs & 63] : deep(runs, depth - 1) + words[depth & 63];
}

__global__ void takes_200_us(int* runs) {
  spin(NS);
  int added = 1;
#if WAY == 0
  volatile int words[WORDS];
  for (int i = 0; i < WORDS; ++i) words[i] = k_mark;
  if (words[*runs & (WORDS - 1)] != k_mark) added = 3;
#elif WAY == 1
  volatile int words[WORDS];
  int found = 0;
  for (int i = 0; i < WORDS; ++i) found += words[i] == k_mark;
  if (*runs == -7) words[0] = 1;
  if (found == 0) added = 2;
#elif WAY == 2
  int* kept = static_cast<int*>(malloc(1 << 16));
  if (kept == nullptr) added = 2;
  else *kept = k_mark;
#elif WAY == 3
  printf("%d runs\n", *runs);
#elif WAY == 4
  if (deep(runs, 1) == -7) added = 3;
#endif
  *runs += added;
}
