// Objects with virtual functions that one kernel makes and another calls, pointers to functions in memory, in a table, in
// constant memory and as an argument, and pointers to variables.
#include <new>

#include "check.cuh"

using Function = float (*)(float);

struct Shape {
  __device__ virtual float area(float x) const = 0;
  __device__ virtual int corners() const { return 0; }
};
struct Square : Shape {
  float side;
  __device__ explicit Square(float s) : side(s) {}
  __device__ float area(float x) const override { return side * side * x; }
  __device__ int corners() const override { return 4; }
};
struct Circle : Shape {
  float radius;
  __device__ explicit Circle(float r) : radius(r) {}
  __device__ float area(float x) const override { return 3 * radius * radius * x; }
};

__device__ __noinline__ float increment(float x) { return x + 1; }
__device__ __noinline__ float twice(float x) { return x * 2; }
__device__ Function table[2] = {increment, twice};
__constant__ Function constant_table[2] = {twice, increment};
namespace {
__device__ float values[4] = {1, 2, 3, 4};
}
__device__ float* value = &values[1];
__device__ int calls = 0;

__global__ void build_scene(Circle* shapes, Function* functions, float** pointers) {
  const int i = threadIdx.x;
  if (i % 2 == 0) {
    new (&shapes[i]) Circle(static_cast<float>(i));
  } else {
    new (&shapes[i]) Square(static_cast<float>(i));
  }
  functions[i] = i % 3 == 0 ? twice : table[0];
  pointers[i] = &values[i % 4];
}

__global__ void render(Circle* shapes, Function* functions, float** pointers, Function given, float* out) {
  const int i = threadIdx.x;
  const Shape* shape = &shapes[i];
  const float x = static_cast<float>(i);
  float sum = shape->area(x) + static_cast<float>(shape->corners()) + functions[i](x);
  sum += table[i % 2](x) + constant_table[i % 2](x) + given(x) + *pointers[i] + *value;
  out[i] = sum;
  atomicAdd(&calls, 1);
}

int main() {
  constexpr int count = 64;
  Circle* shapes = nullptr;
  Function* functions = nullptr;
  float** pointers = nullptr;
  float* out = nullptr;
  CHECK(cudaMalloc(&shapes, count * sizeof(Circle)));
  CHECK(cudaMalloc(&functions, count * sizeof(Function)));
  CHECK(cudaMalloc(&pointers, count * sizeof(float*)));
  CHECK(cudaMalloc(&out, count * sizeof(float)));
  Function given = nullptr;
  CHECK(cudaMemcpyFromSymbol(&given, table, sizeof given));
  build_scene<<<1, count>>>(shapes, functions, pointers);
  const float changed = 10;
  CHECK(cudaMemcpyToSymbol(values, &changed, sizeof changed));
  render<<<1, count>>>(shapes, functions, pointers, given, out);
  CHECK(cudaGetLastError());
  float host[count];
  CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
  for (int i = 0; i < count; ++i) {
    const float x = static_cast<float>(i);
    const float area = (i % 2 == 0 ? 3 * x * x * x : x * x * x) + (i % 2 == 0 ? 0.0f : 4.0f);
    const float stored = i % 3 == 0 ? 2 * x : x + 1;
    const float value_of = i % 4 == 0 ? 10.0f : static_cast<float>(i % 4 + 1);
    EXPECT(host[i] == area + stored + (3 * x + 1) + (x + 1) + value_of + 2);
  }
  std::printf("ok\n");
  return 0;
}
