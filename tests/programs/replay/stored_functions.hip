// Function pointers and objects with virtual functions that an earlier kernel left in memory. The variant OTHER_LAYOUT
// does the same from a code object where every function is somewhere else.
#include "hip_check.hpp"

using Operation = int (*)(int);

__device__ int g_calls;
#ifdef OTHER_LAYOUT
__global__ void unrelated(double* out) { out[threadIdx.x] = sin(out[threadIdx.x]) * g_calls; }
#endif

__device__ __attribute__((noinline)) int twice(int value) {
  atomicAdd(&g_calls, 1);
  return 2 * value;
}
__device__ __attribute__((noinline)) int negated(int value) {
  atomicAdd(&g_calls, 100);
  return -value;
}

struct Shape {
  __device__ virtual int area(int scale) const = 0;
};
struct Square : Shape {
  __device__ explicit Square(int side) : m_side(side) {}
  __device__ int area(int scale) const override { return m_side * m_side * scale; }
  int m_side;
};
struct Strip : Shape {
  __device__ explicit Strip(int length) : m_length(length) {}
  __device__ int area(int scale) const override { return twice(m_length) * scale; }
  int m_length;
};

struct Slot {
  Operation operation;
  alignas(8) char shape[16];
};

__global__ void fill(Slot* slots, int count) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= count) return;
  slots[i].operation = i % 2 == 0 ? twice : negated;
  if (i % 3 == 0)
    new (slots[i].shape) Square(i);
  else
    new (slots[i].shape) Strip(i);
}

__global__ void use(const Slot* slots, int* out, int count) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= count) return;
  const auto* shape = reinterpret_cast<const Shape*>(slots[i].shape);
  out[i] += slots[i].operation(i) + shape->area(3);
}

int main() {
  constexpr int k_count = 64;
  const DeviceArray<Slot> slots(k_count);
  const DeviceArray<int> out(std::vector<int>(k_count, 1000));
  fill<<<1, k_count>>>(slots.get(), k_count);
  HIP_DONE();
  use<<<1, k_count>>>(slots.get(), out.get(), k_count);
  HIP_DONE();
  std::vector<int> wanted(k_count);
  for (int i = 0; i < k_count; ++i) {
    wanted[i] = 1000 + (i % 2 == 0 ? 2 * i : -i) + 3 * (i % 3 == 0 ? i * i : 2 * i);
  }
  Tally tally("stored_functions");
  tally.equal("out", out.read(), wanted);
  return tally.finish();
}
