// Each kernel's output is an address in a struct that it takes: a plain one, one that only a compiler lays out, and
// one of a kernel whose symbol names no types.
#include <hip/hip_runtime.h>

struct Plain {
  float* out;
  const double* in;
  int n;
};

struct Inputs {
  const double* in;
};

namespace lib {
template <typename T, typename Count = int>
struct Arguments : Inputs {
  struct alignas(32) Tail {
    T* out;
    Count n : 31;
  } tail;
  Arguments(T* out, const double* in, Count n) : Inputs{in}, tail{out, n} {}
};
}  // namespace lib

using Derived = lib::Arguments<float>;

__device__ void scale(float* out, const double* in, int n) {
  if (threadIdx.x < static_cast<unsigned>(n)) out[threadIdx.x] = in[threadIdx.x] * 2;
}

__global__ void from_plain(Plain a) { scale(a.out, a.in, a.n); }
__global__ void from_derived(Derived a) { scale(a.tail.out, a.in, a.tail.n); }
extern "C" __global__ void from_unnamed(Plain a) { scale(a.out, a.in, a.n); }

int main() {
  float* out = nullptr;
  double* in = nullptr;
  if (hipMalloc(&out, 256) != hipSuccess || hipMalloc(&in, 512) != hipSuccess) return 2;
  if (hipMemset(in, 63, 512) != hipSuccess) return 2;
  from_plain<<<1, 64>>>(Plain{out, in, 64});
  if (hipMemset(out, 0, 256) != hipSuccess) return 2;
  from_derived<<<1, 64>>>(Derived{out, in, 64});
  if (hipMemset(out, 0, 256) != hipSuccess) return 2;
  from_unnamed<<<1, 64>>>(Plain{out, in, 64});
  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}
