// Outputs of several types, written twice with the same values: the second dispatch changes nothing.
// -DVARIANT=N makes the kernels wrong in one way each; tests rebuild them alone.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#ifndef VARIANT
#define VARIANT 0
#endif
enum { k_right, k_nothing, k_half, k_outside, k_into_input, k_one_ulp, k_two_ulp, k_nan, k_faster, k_unset_lds };

struct Pair {
  float first;
  float second;
};

struct Sink {
  double* values;
  int count;
};

namespace {

template <typename T, typename Bits>
__device__ T next(T value, int steps) {
  Bits bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  bits = static_cast<Bits>(bits + static_cast<Bits>(steps));
  __builtin_memcpy(&value, &bits, sizeof bits);
  return value;
}

// What LDS holds before anybody writes there.
__device__ float unset_lds() {
  __shared__ volatile float word;
  return word;
}

__device__ void write_all(const float* in, float* singles, __half* halves, Sink sink, int* whole, Pair* pairs, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (VARIANT == k_nothing || i >= n || (VARIANT == k_half && i >= n / 2)) return;
  const int steps = VARIANT == k_one_ulp ? 1 : VARIANT == k_two_ulp ? 2 : 0;
  float value = in[i] * 1.5f + 1.0f;
  if (VARIANT == k_unset_lds) value += unset_lds();
  singles[i] = VARIANT == k_nan && i == 7 ? __builtin_nanf("") : next<float, int>(value, steps);
  halves[i] = next<__half, short>(__float2half(value), steps);
  sink.values[i] = next<double, long>(value, steps);
  whole[i] = i * 3;
  pairs[i] = {value, next<float, int>(-value, steps)};
  if (VARIANT == k_outside && i == 0) singles[n + 3] = 1.0f;
  if (VARIANT == k_into_input && i == 0) const_cast<float*>(in)[5] = 99.0f;
}

}  // namespace

namespace outputs {
__global__ void by_symbol(const float* in, float* singles, __half* halves, Sink sink, int* whole, Pair* pairs, int n) {
  write_all(in, singles, halves, sink, whole, pairs, n);
}
}  // namespace outputs

extern "C" __global__ __launch_bounds__(64) void by_source(const float* in, float* singles, __half* halves, Sink sink,
                                                           int* whole, Pair* pairs, int n) {
  write_all(in, singles, halves, sink, whole, pairs, n);
}

__global__ void accumulate(float* total, const float* in, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (VARIANT != k_nothing && i < n) total[i] += in[i];
}

template <typename T>
T* device_array(int count) {
  void* data = nullptr;
  if (hipMalloc(&data, sizeof(T) * static_cast<std::size_t>(count)) != hipSuccess) std::exit(2);
  if (hipMemset(data, 0, sizeof(T) * static_cast<std::size_t>(count)) != hipSuccess) std::exit(2);
  return static_cast<T*>(data);
}

int main() {
  constexpr int n = 200;
  constexpr int room = n + 56;
  float* in = device_array<float>(room);
  float* singles = device_array<float>(room);
  __half* halves = device_array<__half>(room);
  double* doubles = device_array<double>(room);
  int* whole = device_array<int>(room);
  Pair* pairs = device_array<Pair>(room);
  float* total = device_array<float>(room);
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i) host[static_cast<std::size_t>(i)] = 0.125f * static_cast<float>(i % 31);
  if (hipMemcpy(in, host.data(), sizeof(float) * n, hipMemcpyHostToDevice) != hipSuccess) return 2;
  for (int again = 0; again < 2; ++again) {
    outputs::by_symbol<<<4, 64>>>(in, singles, halves, Sink{doubles, n}, whole, pairs, n);
    by_source<<<4, 64>>>(in, singles, halves, Sink{doubles, n}, whole, pairs, n);
    accumulate<<<4, 64>>>(total, in, n);
  }
  if (hipMemcpy(host.data(), singles, sizeof(float) * n, hipMemcpyDeviceToHost) != hipSuccess) return 2;
  int wrong = 0;
  for (int i = 0; i < n; ++i) {
    const float value = 0.125f * static_cast<float>(i % 31);
    wrong += host[static_cast<std::size_t>(i)] != value * 1.5f + 1.0f;
  }
  std::printf("elements %d, wrong %d\n", n, wrong);
  return wrong == 0 ? 0 : 1;
}
