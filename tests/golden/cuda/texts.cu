// What reads addresses out of constant bank 4, for the tests of constant_addresses. Built by nvcc 13.0, for sm_80 by 13.5:
//
//   nvcc -arch=sm_90 -cubin texts.cu -o texts.cubin
//   nvcc -arch=sm_90 -DALONE -cubin texts.cu -o texts_alone.cubin
//   nvcc -arch=sm_80 -cubin texts.cu -o texts_sm80.cubin
//   nvcc -arch=sm_80 -DALONE -cubin texts.cu -o texts_alone_sm80.cubin
//
// Without the other kernels, the same addresses are at other places of the bank.
#include <cstdio>

#ifndef ALONE
__device__ int earlier;

__global__ void first(int* x) {
  printf("first %d\n", *x);
  atomicAdd(&earlier, 1);
}
__global__ void second(int* x) { printf("second %d\n", *x); }
#endif

__device__ int seen;

__global__ void says(int* x) {
  printf("says %d\n", *x);
  printf("and %d\n", x[1]);
  atomicAdd(&seen, 1);
}
