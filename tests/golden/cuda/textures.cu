// Kernels that reach textures and surfaces by handles, from wherever those come, and one that reaches none:
//
//   nvcc -arch=sm_90 -cubin textures.cu -o textures.cubin
extern "C" {
__constant__ cudaTextureObject_t hidden;

__global__ void plain(float* out, const float* in, int count) {
  __shared__ float shared[256];
  shared[threadIdx.x] = static_cast<int>(threadIdx.x) < count ? in[threadIdx.x] : 0;
  __syncthreads();
  atomicAdd(out, shared[255 - threadIdx.x]);
}
__global__ void fetch(cudaTextureObject_t texture, float* out) { out[threadIdx.x] = tex1Dfetch<float>(texture, threadIdx.x); }
__global__ void sample_hidden(float* out) { out[threadIdx.x] = tex2D<float>(hidden, threadIdx.x * 0.5f, 0.25f); }
__global__ void load(cudaSurfaceObject_t surface, float* out) { out[threadIdx.x] = surf2Dread<float>(surface, threadIdx.x * 4, 3); }
__global__ void store(cudaSurfaceObject_t* surfaces, float* in) {
  surf3Dwrite<float>(in[threadIdx.x], surfaces[threadIdx.x], threadIdx.x * 4, 3, 1);
}
__device__ __noinline__ float behind(cudaTextureObject_t texture, float at) { return tex1D<float>(texture, at); }
__global__ void through_a_function(cudaTextureObject_t texture, float* out) { out[threadIdx.x] = behind(texture, out[0]); }
}
