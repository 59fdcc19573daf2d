// Objects made on the device, called through their base class.
#include "hip_check.hpp"

struct Shape {
  __device__ virtual int area() const = 0;
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  __device__ explicit Square(int side) : m_side(side) {}
  __device__ int area() const override { return m_side * m_side; }
  int m_side;
};
struct Rectangle : Shape {
  __device__ Rectangle(int width, int height) : m_width(width), m_height(height) {}
  __device__ int area() const override { return m_width * m_height; }
  int m_width, m_height;
};

constexpr std::size_t k_slot_bytes = 32;

__global__ void make(char* storage, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  if (i % 3 == 0)
    new (storage + i * k_slot_bytes) Square(i);
  else
    new (storage + i * k_slot_bytes) Rectangle(i, i + 5);
}

__global__ void measure(const char* storage, int* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = reinterpret_cast<const Shape*>(storage + i * k_slot_bytes)->area();
}

int main() {
  constexpr int k_count = 300;
  const DeviceArray<char> storage(k_count * k_slot_bytes);
  const DeviceArray<int> out(k_count);
  make<<<3, 128>>>(storage.get(), k_count);
  measure<<<3, 128>>>(storage.get(), out.get(), k_count);
  HIP_DONE();
  std::vector<int> wanted(k_count);
  for (int i = 0; i < k_count; ++i) wanted[i] = i % 3 == 0 ? i * i : i * (i + 5);
  Tally tally("virtual_calls");
  tally.equal("area", out.read(), wanted);
  return tally.finish();
}
