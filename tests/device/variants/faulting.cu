__global__ void vector_add(const float* a, float* c, int count) {
  c[0] = *reinterpret_cast<const float*>(0x10) + a[0] + static_cast<float>(count);
}
