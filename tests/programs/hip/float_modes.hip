// The wave's rounding and denormal modes, set by the kernel itself, against the host's rounding modes and flushing.
#include <cfenv>

#include "hip_check.hpp"

namespace {

constexpr int k_count = 256;
// Fields of the MODE register: rounding of f32 and of f64 with f16 in bits 0-3, denormals of each in bits 4-7.
constexpr int k_round = 1 | 0 << 6 | 3 << 11, k_denormals = 1 | 4 << 6 | 3 << 11;

// By assembly, so that no operation moves across a change of the mode.
__device__ float add(float a, float b) { float r; asm volatile("v_add_f32 %0, %1, %2" : "=v"(r) : "v"(a), "v"(b)); return r; }
__device__ float multiply(float a, float b) { float r; asm volatile("v_mul_f32 %0, %1, %2" : "=v"(r) : "v"(a), "v"(b)); return r; }
__device__ float fuse(float a, float b, float c) { float r; asm volatile("v_fma_f32 %0, %1, %2, %3" : "=v"(r) : "v"(a), "v"(b), "v"(c)); return r; }
__device__ double add(double a, double b) { double r; asm volatile("v_add_f64 %0, %1, %2" : "=v"(r) : "v"(a), "v"(b)); return r; }
__device__ double multiply(double a, double b) { double r; asm volatile("v_mul_f64 %0, %1, %2" : "=v"(r) : "v"(a), "v"(b)); return r; }
__device__ float narrow(double a) { float r; asm volatile("v_cvt_f32_f64 %0, %1" : "=v"(r) : "v"(a)); return r; }

struct Singles { float a[k_count], sum[k_count], product[k_count], fused[k_count], narrowed[k_count]; };
struct Doubles { double a[k_count], sum[k_count], product[k_count]; };

__device__ void compute(Singles& s, Doubles& d, int i) {
  const int j = (i * 7 + 3) % k_count, k = (i * 5 + 1) % k_count;
  s.sum[i] = add(s.a[i], s.a[j]);
  s.product[i] = multiply(s.a[i], s.a[j]);
  s.fused[i] = fuse(s.a[i], s.a[j], s.a[k]);
  s.narrowed[i] = narrow(d.a[i]);
  d.sum[i] = add(d.a[i], d.a[j]);
  d.product[i] = multiply(d.a[i], d.a[j]);
}

template <int t_mode>
__global__ void in_round_mode(Singles* s, Doubles* d) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  __builtin_amdgcn_s_setreg(k_round, t_mode | t_mode << 2);
  compute(*s, *d, i);
  __builtin_amdgcn_s_setreg(k_round, 0);
}

template <int t_mode>
__global__ void in_denormal_mode(Singles* s, Doubles* d) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  __builtin_amdgcn_s_setreg(k_denormals, t_mode);
  compute(*s, *d, i);
  __builtin_amdgcn_s_setreg(k_denormals, 0xF);
}

struct Expected {
  std::vector<float> sum, product, fused, narrowed;
  std::vector<double> sum64, product64;
};

// Volatile, so that the compiler computes nothing in its own rounding mode.
Expected on_host(const Singles& s, const Doubles& d, int mode) {
  Expected e{std::vector<float>(k_count), std::vector<float>(k_count), std::vector<float>(k_count),
             std::vector<float>(k_count), std::vector<double>(k_count), std::vector<double>(k_count)};
  std::fesetround(mode);
  for (int i = 0; i < k_count; ++i) {
    const int j = (i * 7 + 3) % k_count, k = (i * 5 + 1) % k_count;
    const volatile float a = s.a[i], b = s.a[j], c = s.a[k];
    const volatile double x = d.a[i], y = d.a[j];
    volatile float single;
    volatile double wide;
    single = a + b, e.sum[i] = single;
    single = a * b, e.product[i] = single;
    single = std::fmaf(a, b, c), e.fused[i] = single;
    single = static_cast<float>(x), e.narrowed[i] = single;
    wide = x + y, e.sum64[i] = wide;
    wide = x * y, e.product64[i] = wide;
  }
  std::fesetround(FE_TONEAREST);
  return e;
}

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b); }

template <typename T>
void compare(Tally& tally, const char* what, const T* got, const std::vector<T>& wanted) {
  for (int i = 0; i < k_count; ++i) tally.expect(same_bits(got[i], wanted[i]), what, i, got[i], wanted[i]);
}

float flushed(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value; }

}  // namespace

int main() {
  Tally tally("float_modes");
  Random source;
  Singles* s = nullptr;
  Doubles* d = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&s), sizeof *s, 0));
  HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&d), sizeof *d, 0));
  for (int i = 0; i < k_count; ++i) {
    s->a[i] = static_cast<float>(std::ldexp(source.real(-2, 2), source.whole(-12, 12)));
    d->a[i] = std::ldexp(source.real(-2, 2), source.whole(-20, 20));
  }
  const auto check = [&](const char* what, int mode) {
    HIP_DONE();
    const Expected e = on_host(*s, *d, mode);
    compare(tally, what, s->sum, e.sum);
    compare(tally, what, s->product, e.product);
    compare(tally, what, s->fused, e.fused);
    compare(tally, what, s->narrowed, e.narrowed);
    compare(tally, what, d->sum, e.sum64);
    compare(tally, what, d->product, e.product64);
  };
  in_round_mode<0><<<4, 64>>>(s, d), check("to nearest", FE_TONEAREST);
  in_round_mode<1><<<4, 64>>>(s, d), check("up", FE_UPWARD);
  in_round_mode<2><<<4, 64>>>(s, d), check("down", FE_DOWNWARD);
  in_round_mode<3><<<4, 64>>>(s, d), check("toward zero", FE_TOWARDZERO);

  // Around the smallest normal numbers.
  for (int i = 0; i < k_count; ++i) {
    s->a[i] = static_cast<float>(std::ldexp(source.real(-2, 2), i % 3 == 0 ? source.whole(-3, 3) : source.whole(-140, -124)));
    d->a[i] = std::ldexp(source.real(-2, 2), source.whole(-140, -120));
  }
  in_denormal_mode<0xF><<<4, 64>>>(s, d), check("denormals kept", FE_TONEAREST);
  in_denormal_mode<0xC><<<4, 64>>>(s, d);  // f32 flushes what goes in and what comes out, f64 does not
  HIP_DONE();
  for (int i = 0; i < k_count; ++i) {
    const float a = flushed(s->a[i]), b = flushed(s->a[(i * 7 + 3) % k_count]);
    tally.expect(same_bits(s->sum[i], flushed(a + b)), "f32 sums flushed", i, s->sum[i], flushed(a + b));
    tally.expect(same_bits(s->product[i], flushed(a * b)), "f32 products flushed", i, s->product[i], flushed(a * b));
    const double sum = d->a[i] + d->a[(i * 7 + 3) % k_count];
    tally.expect(same_bits(d->sum[i], sum), "f64 sums kept", i, d->sum[i], sum);
  }
  HIP_OK(hipHostFree(s));
  HIP_OK(hipHostFree(d));
  return tally.finish();
}
