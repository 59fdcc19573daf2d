// A kernel and an edit of it, with variables of each kind. Built by nvcc 13.0, for the tests of program_variables:
//
//   nvcc -arch=sm_90 -cubin variables.cu -o variables.cubin
//   nvcc -arch=sm_90 -cubin -DEDITED variables.cu -o variables_edited.cubin
//   nvcc -arch=sm_90 -cubin -DEDITED -DGROWN variables.cu -o variables_grown.cubin
#include <cstdio>

__device__ int counter;
__device__ int* where = &counter;
__constant__ float scale_by[3] = {1, 2, 3};
#ifdef GROWN
__device__ float table[8];
#else
__device__ float table[4];
#endif
#ifdef EDITED
__device__ int own;
#endif
extern "C" __global__ void use(float* x) {
  static __device__ int calls;
#ifdef EDITED
  atomicAdd(&own, 1);
  printf("edited %d\n", own);
#else
  printf("captured\n");
#endif
  atomicAdd(&counter, 1);
  ++calls;
  *where += calls;
  x[threadIdx.x] = table[threadIdx.x] * scale_by[threadIdx.x % 3];
}
