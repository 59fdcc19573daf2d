#pragma once
template <typename T>
__device__ T step(T value, T factor) {
  return value * factor;
}
