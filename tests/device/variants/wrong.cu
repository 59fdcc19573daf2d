__global__ void vector_add(const float* a, float* c, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) c[i] = a[i] + c[i] + (i == 12345 ? 0.5f : 0.0f);
}
