// Arguments as Kokkos passes large ones: the functor goes into a __constant__ buffer, and the kernel takes none.
#include <cstring>

#include "hip_check.hpp"

constexpr std::size_t k_buffer_bytes = 32 * 1024;
__constant__ unsigned long constant_buffer[k_buffer_bytes / sizeof(unsigned long)];

template <typename Functor>
__global__ void launch_constant_memory() {
  const Functor& functor = *reinterpret_cast<const Functor*>(constant_buffer);
  functor(static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x));
}

struct View {
  double* data;
  int extent;
  __device__ double& operator()(int i) const { return data[i]; }
};

struct Axpy {
  double factor;
  View x, y;
  int padding[200];                      // too large for ordinary arguments
  __device__ void operator()(int i) const {
    if (i < y.extent) y(i) += factor * x(i) + padding[i % 200];
  }
};

template <typename Functor>
void parallel_for(int count, const Functor& functor) {
  static_assert(sizeof(Functor) <= k_buffer_bytes);
  HIP_OK(hipMemcpyToSymbol(HIP_SYMBOL(constant_buffer), &functor, sizeof functor));
  launch_constant_memory<Functor><<<(count + 127) / 128, 128>>>();
  HIP_DONE();
}

int main() {
  constexpr int k_count = 2000;
  std::vector<double> x(k_count), wanted(k_count, 0.0);
  for (int i = 0; i < k_count; ++i) x[i] = i * 0.5;
  const DeviceArray<double> device_x(x), device_y(wanted);
  Axpy axpy{2.0, {device_x.get(), k_count}, {device_y.get(), k_count}, {}};
  for (int i = 0; i < 200; ++i) axpy.padding[i] = i;
  for (int round = 1; round <= 2; ++round) {
    axpy.factor = round;
    parallel_for(k_count, axpy);
    for (int i = 0; i < k_count; ++i) wanted[i] += axpy.factor * x[i] + i % 200;
  }
  Tally tally("kokkos_like");
  tally.equal("y", device_y.read(), wanted);
  return tally.finish();
}
