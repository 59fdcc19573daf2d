// Mathematical functions on the device against the CPU's in long double, in units of the last place.
#pragma once

#include <limits>

#include "hip_check.hpp"

constexpr int k_functions = 30;

template <typename T>
__device__ T on_device(int function, T x, T y) {
  switch (function) {
    case 0: return sin(x);
    case 1: return cos(x);
    case 2: return tan(x);
    case 3: return asin(x / T(21));
    case 4: return acos(x / T(21));
    case 5: return atan(x);
    case 6: return atan2(x, y);
    case 7: return sinh(x);
    case 8: return cosh(x);
    case 9: return tanh(x);
    case 10: return asinh(x);
    case 11: return exp(x);
    case 12: return exp2(x);
    case 13: return expm1(x);
    case 14: return log(fabs(x));
    case 15: return log2(fabs(x));
    case 16: return log10(fabs(x));
    case 17: return log1p(fabs(x));
    case 18: return pow(fabs(x), y / T(4));
    case 19: return sqrt(fabs(x));
    case 20: return rsqrt(fabs(x));
    case 21: return cbrt(x);
    case 22: return hypot(x, y);
    case 23: return fmod(x, y);
    case 24: return erf(x / T(8));
    case 25: return floor(x) + ceil(y) * T(64) + trunc(x) * T(4096);
    case 26: return rint(x) + round(y) * T(64);
    case 27: return ldexp(x, static_cast<int>(y));
    case 28: return fma(x, y, T(0.1));
    default: return sin(x * T(100000));  // needs the long argument reduction
  }
}

// The argument goes through T where the device's does.
template <typename T>
long double on_host(int function, T x, T y) {
  using L = long double;
  const L l = x, m = y, magnitude = std::fabs(l);
  switch (function) {
    case 0: return std::sin(l);
    case 1: return std::cos(l);
    case 2: return std::tan(l);
    case 3: return std::asin(L{x / T(21)});
    case 4: return std::acos(L{x / T(21)});
    case 5: return std::atan(l);
    case 6: return std::atan2(l, m);
    case 7: return std::sinh(l);
    case 8: return std::cosh(l);
    case 9: return std::tanh(l);
    case 10: return std::asinh(l);
    case 11: return std::exp(l);
    case 12: return std::exp2(l);
    case 13: return std::expm1(l);
    case 14: return std::log(magnitude);
    case 15: return std::log2(magnitude);
    case 16: return std::log10(magnitude);
    case 17: return std::log1p(magnitude);
    case 18: return std::pow(magnitude, L{y / T(4)});
    case 19: return std::sqrt(magnitude);
    case 20: return 1 / std::sqrt(magnitude);
    case 21: return std::cbrt(l);
    case 22: return std::hypot(l, m);
    case 23: return std::fmod(l, m);
    case 24: return std::erf(L{x / T(8)});
    case 25: return std::floor(l) + std::ceil(m) * 64 + std::trunc(l) * 4096;
    case 26: return std::rint(l) + std::round(m) * 64;
    case 27: return std::ldexp(l, static_cast<int>(y));
    case 28: return std::fma(l, m, L{T(0.1)});
    default: return std::sin(L{x * T(100000)});
  }
}

// In units of the last place; OpenCL's bounds for full-profile devices, 0.5 rounded up to 1.
constexpr int k_bounds[k_functions] = {4, 4, 5, 4, 4, 5, 6, 4, 4, 5, 4, 3, 3, 3, 3, 3, 3, 2, 16, 3, 2, 2, 4, 0, 16, 1, 1, 0, 1, 4};

template <typename T>
__global__ void evaluate(const T* x, const T* y, T* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  for (int function = 0; function < k_functions; ++function) out[function * count + i] = on_device(function, x[i], y[i]);
}

template <typename T>
int check_functions(const char* name) {
  constexpr int k_count = 320;
  std::vector<T> x(k_count), y(k_count);
  Random source;
  for (int i = 0; i < k_count; ++i) {
    x[i] = static_cast<T>(source.real(-20, 20));
    y[i] = static_cast<T>(source.real(-20, 20));
  }
  const DeviceArray<T> device_x(x), device_y(y), device_out(k_functions * k_count);
  evaluate<<<(k_count + 63) / 64, 64>>>(device_x.get(), device_y.get(), device_out.get(), k_count);
  HIP_DONE();
  const std::vector<T> out = device_out.read();
  Tally tally(name);
  for (int function = 0; function < k_functions; ++function) {
    char label[32];
    std::snprintf(label, sizeof label, "function %d", function);
    for (int i = 0; i < k_count; ++i) {
      const long double wanted = on_host(function, x[i], y[i]);
      const T rounded = static_cast<T>(wanted);
      const double unit = std::nextafter(std::fabs(rounded), std::numeric_limits<T>::infinity()) - std::fabs(rounded);
      tally.near(label, i, out[function * k_count + i], static_cast<double>(wanted), (k_bounds[function] + 0.5) * unit);
    }
  }
  return tally.finish();
}
