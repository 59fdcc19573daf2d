__global__ void vector_add(const float*, float* c, int) {
  volatile float* const watched = c;
  while (watched[0] != -12345.0f) {
  }
}
