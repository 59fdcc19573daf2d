// device_launch.cubin was made from this by nvcc 13.0:
//   nvcc -arch=sm_90 -rdc=true -dc device_launch.cu -o x.o
//   nvcc -arch=sm_90 -dlink -cubin x.o -lcudadevrt -o device_launch.cubin
__global__ void inner(int* data) { data[threadIdx.x] = 7; }
__noinline__ __device__ void start(int* data) { inner<<<1, 32>>>(data); }
__global__ void outer(int* data) { inner<<<1, 32>>>(data); }
__global__ void through(int* data) { start(data); }
