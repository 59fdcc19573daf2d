// Built by nvcc 13.0 into facts.cubin, which the tests of cubin readers read:
//
//   nvcc -arch=sm_90 -cubin facts.cu -o facts.cubin
__device__ float bias[4] = {1, 2, 3, 4};
__constant__ float scale_by = 2.0f;
struct Shape {
  float offset;
  int count;
};
extern "C" __global__ void __launch_bounds__(256) add(const float* a, const float* b, float* c, Shape shape) {
  __shared__ float own[64];
  extern __shared__ float dynamic[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  own[threadIdx.x & 63] = shape.offset;
  dynamic[0] = 1;
  __syncthreads();
  if (i < shape.count) c[i] = a[i] + b[i] * scale_by + bias[i & 3] + own[3] + dynamic[0];
}
template <typename T>
__global__ void increment(T* x) {
  x[threadIdx.x] += 1;
}
template __global__ void increment<float>(float*);
__global__ void allocate(int** out) { out[threadIdx.x] = static_cast<int*>(malloc(64)); }
