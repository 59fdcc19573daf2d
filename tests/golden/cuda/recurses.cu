// recurses.cubin was made from this by nvcc 13.5: a function that calls itself.
//
//   nvcc -arch=sm_90 -O2 -cubin recurses.cu -o recurses.cubin
__device__ __noinline__ int descend(int depth) {
  volatile int words[32];
  for (int i = 0; i < 32; ++i) words[i] = depth;
  return depth == 0 ? words[0] : descend(depth - 1) + words[depth & 31];
}

extern "C" __global__ void recurses(int* depth) { *depth = descend(*depth); }
