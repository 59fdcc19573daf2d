// The same C++ operators compiled for the GPU and for the CPU must agree on every bit (NaN payloads aside).
// The two compilers must not fuse a product and a sum, or they may fuse differently; nor may they keep 16-bit
// intermediates in 32 bits, which the CPU's does within an expression: so each result goes through a variable.
#pragma once

#include <limits>
#include <type_traits>

#include "hip_check.hpp"

#pragma clang fp contract(off)

template <typename T, typename U, typename Wide>
struct Integers {
  static constexpr int k_operations = 26;
  static constexpr int k_bits = 8 * sizeof(T);

  __host__ __device__ static T apply(int operation, T a, T b) {
    const U ua = static_cast<U>(a), ub = static_cast<U>(b);
    const T divisor = b == 0 || b == -1 ? T{3} : b;
    const U unsigned_divisor = ub == 0 ? U{7} : ub;
    const int shift = static_cast<int>(ub % k_bits);
    switch (operation) {
      case 0: return static_cast<T>(ua + ub);
      case 1: return static_cast<T>(ua - ub);
      case 2: return static_cast<T>(ua * ub);
      case 3: return a / divisor;
      case 4: return a % divisor;
      case 5: return static_cast<T>(ua / unsigned_divisor);
      case 6: return static_cast<T>(ua % unsigned_divisor);
      case 7: return a & b;
      case 8: return a | b;
      case 9: return a ^ b;
      case 10: return ~a;
      case 11: return static_cast<T>(ua << shift);
      case 12: return static_cast<T>(ua >> shift);
      case 13: return a >> shift;
      case 14: return a < b ? a : b;
      case 15: return a > b ? a : b;
      case 16: return static_cast<T>(ua < ub ? ua : ub);
      case 17: return static_cast<T>(ua > ub ? ua : ub);
      case 18: return __builtin_popcountll(ua);
      case 19: return ua == 0 ? k_bits : __builtin_clzll(ua) - (64 - k_bits);
      case 20: return ua == 0 ? k_bits : __builtin_ctzll(ua);
      case 21: return static_cast<T>((Wide{a} * Wide{b}) >> k_bits);
      case 22: return static_cast<T>((ua << shift) | (ua >> ((k_bits - shift) % k_bits)));
      case 23: return static_cast<T>((ua >> (shift / 2)) & ((U{1} << (shift / 2)) - 1));
      case 24: return static_cast<T>(ua * ub + (ua ^ ub));
      default: return (a == b) + 2 * (a < b) + 4 * (ua < ub) + 8 * (a != 0 && b != 0);
    }
  }

  static T edge(int index) {
    const T edges[] = {0, 1, -1, 2, -2, 3, 7, 10, 31, 255, -256, static_cast<T>(0x5555555555555555ll),
                       std::numeric_limits<T>::max(), std::numeric_limits<T>::min(),
                       std::numeric_limits<T>::max() - 1, std::numeric_limits<T>::min() + 1};
    return edges[index % 16];
  }
  static T random(Random& source) { return static_cast<T>(source.bits() >> (source.bits() % 64)); }
};

template <typename T>
struct Floats {
  static constexpr int k_operations = 20;
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;

  // Conversion to an integer is undefined out of range.
  __host__ __device__ static T whole(T a) { return a > T(-30000) && a < T(30000) ? a : T(17); }

  __host__ __device__ static T root(T a) {
    if constexpr (sizeof(T) == 8) return __builtin_sqrt(a);
    // Correctly rounded in f32 is correctly rounded in a 16-bit type.
    return static_cast<T>(__builtin_sqrtf(static_cast<float>(a)));
  }

  __host__ __device__ static T fused(T a, T b, T c) {
    if constexpr (sizeof(T) == 8) return __builtin_fma(a, b, c);
    if constexpr (sizeof(T) == 4) return __builtin_fmaf(a, b, c);
    return sum(product(a, b), c);
  }

  __host__ __device__ static T product(T a, T b) {
    const T result = a * b;
    return result;
  }
  __host__ __device__ static T sum(T a, T b) {
    const T result = a + b;
    return result;
  }

  __host__ __device__ static T apply(int operation, T a, T b) {
    switch (operation) {
      case 0: return a + b;
      case 1: return a - b;
      case 2: return a * b;
      case 3: return a / b;
      case 4: return b / a;
      case 5: return T(1) / a;
      case 6: return root(a < T(0) ? -a : a);
      case 7: return root(a);
      case 8: return fused(a, b, a);
      case 9: return fused(-a, b, T(1));
      case 10: return -a;
      case 11: return a < T(0) ? -a : a;
      case 12: return a < b ? a : b;
      case 13: return a > b ? a : b;
      case 14: return sum(product(a, b), b);
      case 15: return static_cast<T>(static_cast<int>(whole(a)));
      case 16: return static_cast<T>(static_cast<unsigned>(whole(a) < T(0) ? -whole(a) : whole(a)));
      case 17: return sum(product(a, T(0.5)), -product(b, T(3)));
      case 18: return static_cast<T>(static_cast<float>(a) * 0.25f);
      default: return T((a == b) + 2 * (a < b) + 4 * (a <= b) + 8 * (a != b) + 16 * (a != a) + 32 * !(a < b));
    }
  }

  static T from_bits(Bits bits) {
    T value;
    std::memcpy(&value, &bits, sizeof(T));
    return value;
  }

  static T edge(int index) {
    constexpr int k_bits = 8 * sizeof(T);
    constexpr int k_mantissa = sizeof(T) == 8 ? 52 : sizeof(T) == 4 ? 23 : std::is_same_v<T, _Float16> ? 10 : 7;
    const Bits sign = static_cast<Bits>(Bits{1} << (k_bits - 1));
    const Bits infinity = static_cast<Bits>((sign - 1) & ~((Bits{1} << k_mantissa) - 1));
    const Bits smallest_normal = static_cast<Bits>(Bits{1} << k_mantissa);
    switch (index % 16) {
      case 0: return T(0);
      case 1: return from_bits(sign);
      case 2: return T(1);
      case 3: return T(-1);
      case 4: return from_bits(1);                                            // smallest denormal
      case 5: return from_bits(static_cast<Bits>(smallest_normal - 1));       // largest denormal
      case 6: return from_bits(smallest_normal);
      case 7: return from_bits(static_cast<Bits>(infinity - 1));              // largest finite
      case 8: return from_bits(infinity);
      case 9: return from_bits(static_cast<Bits>(infinity | sign));
      case 10: return from_bits(static_cast<Bits>(infinity | (smallest_normal >> 1)));  // NaN
      case 11: return from_bits(static_cast<Bits>((infinity - 1) | sign));
      case 12: return T(3);
      case 13: return from_bits(static_cast<Bits>((smallest_normal + 5) | sign));
      case 14: return T(0.333);
      default: return T(1.5);
    }
  }
  // Half of them any bit pattern, half of them of ordinary size.
  static T random(Random& source) {
    if (source.bits() & 64) return from_bits(static_cast<Bits>(source.bits()));
    return static_cast<T>(source.real(-100, 100));
  }
};

template <typename Family, typename T>
__global__ void apply_all(const T* a, const T* b, T* out, int count) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index >= count) return;
  for (int operation = 0; operation < Family::k_operations; ++operation)
    out[operation * count + index] = Family::apply(operation, a[index], b[index]);
}

template <typename Family, typename T>
int check_arithmetic(const char* name) {
  constexpr int k_count = 256 + 700;  // not a multiple of the wave size
  std::vector<T> a(k_count), b(k_count);
  Random source;
  for (int i = 0; i < k_count; ++i) {
    a[i] = i < 256 ? Family::edge(i / 16) : Family::random(source);
    b[i] = i < 256 ? Family::edge(i % 16) : Family::random(source);
  }
  const DeviceArray<T> device_a(a), device_b(b), device_out(static_cast<std::size_t>(k_count) * Family::k_operations);
  apply_all<Family, T><<<(k_count + 127) / 128, 128>>>(device_a.get(), device_b.get(), device_out.get(), k_count);
  HIP_DONE();
  const std::vector<T> out = device_out.read();
  Tally tally(name);
  for (int operation = 0; operation < Family::k_operations; ++operation) {
    char label[32];
    std::snprintf(label, sizeof label, "operation %d", operation);
    for (int i = 0; i < k_count; ++i)
      tally.equal(label, i, out[operation * k_count + i], Family::apply(operation, a[i], b[i]));
  }
  return tally.finish();
}
