// Of programs/known_times.cu: the kernel only launches another one, in STREAM, which takes the time. Needs -rdc=true and cudadevrt.
#include "../programs/spin.cuh"

__global__ void waits(int* runs) { spin(200'000), *runs += 1; }

__global__ void takes_200_us(int* runs) { waits<<<1, 1, 0, STREAM>>>(runs); }
