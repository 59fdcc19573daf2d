__global__ void vector_add(const float*, float*, int) {}
