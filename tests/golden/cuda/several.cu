// several.fatbin: nvcc -fatbin -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90a,code=sm_90a
//                      -gencode=arch=compute_75,code=compute_75 several.cu -o several.fatbin
__global__ void plain(float* data, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] *= 3;
}
