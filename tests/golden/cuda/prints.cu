// prints.cubin was made from this by nvcc 13.5:
//   nvcc -arch=sm_90 -cubin prints.cu -o prints.cubin
#include <cstdio>

__device__ __noinline__ void tell(int i) { printf("%d\n", i); }
__global__ void prints(int* data) { tell(data[0]); }
__global__ void is_silent(int* data) { data[0] = 1; }
__global__ void gives_back(void* data) { free(data); }
