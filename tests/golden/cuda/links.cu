// What refers to variables and functions of a module, for the tests of cubin_links. Built by nvcc 13.0:
//
//   nvcc -arch=sm_90 -cubin links.cu -o links.cubin
//   nvcc -arch=sm_80 -cubin links.cu -o links_sm80.cubin
//   nvcc -arch=sm_90 -rdc=true -cubin links.cu -o links.o && nvlink -arch=sm_90 links.o -o links_separate.cubin
#include <new>

struct Shape {
  __device__ virtual float area(float x) const { return x; }
};
struct Square : Shape {
  __device__ float area(float x) const override { return x * x; }
};
using Function = float (*)(float);
__device__ __noinline__ float one(float x) { return x + 1; }
__device__ __noinline__ float two(float x) { return x * 2; }
__device__ Function table[2] = {one, two};
__device__ float values[4] = {1, 2, 3, 4};
__device__ float* pointer = &values[1];
__constant__ float* constant_pointer = &values[2];
__device__ float zeros[4];
extern "C" __global__ void use(Shape* shape, Function* stored, float* out) {
  out[0] = shape->area(2) + stored[0](1) + table[threadIdx.x](1) + *pointer + *constant_pointer + zeros[threadIdx.x];
  new (shape) Square;
  stored[1] = two;
}
