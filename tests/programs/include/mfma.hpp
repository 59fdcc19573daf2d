// Matrix instructions, each by its builtin, one wave, all its blocks, against the same products on the CPU.
//
// Where the elements live (i row of A, j column of B, k the summed index, b the block; E elements of A in a lane):
//   A[b][i][k]: lane i + M*(b + B*(k/E)), element k % E          B[b][k][j]: lane j + N*(b + B*(k/E)), element k % E
//   D[b][i][j], 32-bit: lane j + N*(i/4 % G), or j + N*b where one block has four rows; element i%4 + 4*(i/4/G) and
//   on with the next block, where G = 64/N groups of lanes; 64-bit: lane j + 16*(i%4), element i/4, or j + 4*b + 16*i.
#pragma once

#include "hip_check.hpp"

using f16x4 = __attribute__((ext_vector_type(4))) _Float16;
using i16x2 = __attribute__((ext_vector_type(2))) short;
using i16x4 = __attribute__((ext_vector_type(4))) short;
using f32x2 = __attribute__((ext_vector_type(2))) float;

// How a small whole number, or a half, is written in each element type. All are exact in all of them.
struct F64 { using Storage = double; static Storage encode(double v) { return v; } };
struct F32 { using Storage = float; static Storage encode(double v) { return static_cast<float>(v); } };
struct F16 { using Storage = _Float16; static Storage encode(double v) { return static_cast<_Float16>(v); } };
struct I8 { using Storage = std::int8_t; static Storage encode(double v) { return static_cast<std::int8_t>(v * 2); } };
struct Bf16 {
  using Storage = std::uint16_t;
  static Storage encode(double v) {
    const float single = static_cast<float>(v);
    std::uint32_t bits;
    std::memcpy(&bits, &single, 4);
    return static_cast<Storage>(bits >> 16);
  }
};
// gfx942's 8-bit floats: bias one more than OCP's, one zero, NaN in place of minus zero.
template <int t_mantissa_bits, int t_bias>
struct Fnuz8 {
  using Storage = std::uint8_t;
  static Storage encode(double v) {
    if (v == 0) return 0;
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(v), &exponent);  // in [0.5, 1)
    const int mantissa = static_cast<int>((fraction * 2 - 1) * (1 << t_mantissa_bits));
    return static_cast<Storage>((v < 0 ? 0x80 : 0) | ((exponent - 1 + t_bias) << t_mantissa_bits) | mantissa);
  }
};
using Fp8 = Fnuz8<3, 8>;
using Bf8 = Fnuz8<2, 16>;

template <typename Element> constexpr double k_scale = 1;
template <> inline constexpr double k_scale<I8> = 2;

template <typename Operand, typename Accumulator>
using Kernel = void (*)(const Operand*, const Operand*, const Accumulator*, Accumulator*);

template <typename A, typename B, typename Operand, typename Accumulator>
void check_tile(Tally& tally, const char* what, Kernel<Operand, Accumulator> kernel, int m, int k_size, int blocks) {
  using Result = std::remove_reference_t<decltype(std::declval<Accumulator&>()[0])>;
  constexpr int k_lanes = 64;
  const int n = m, per_lane = m * k_size * blocks / k_lanes;
  const int results = m * n * blocks / k_lanes, groups = k_lanes / n;
  std::vector<typename A::Storage> a(k_lanes * sizeof(Operand) / sizeof(typename A::Storage));
  std::vector<typename B::Storage> b(k_lanes * sizeof(Operand) / sizeof(typename B::Storage));
  std::vector<Result> c(k_lanes * results), wanted(k_lanes * results);
  std::vector<double> left(blocks * m * k_size), right(blocks * m * k_size);

  Random source;
  const auto operand_at = [&](int block, int row, int k) {
    return (row + m * (block + blocks * (k / per_lane))) * per_lane + k % per_lane;
  };
  for (int block = 0; block < blocks; ++block)
    for (int row = 0; row < m; ++row)
      for (int k = 0; k < k_size; ++k) {
        const int at = (block * m + row) * k_size + k;
        left[at] = source.whole(-6, 7) / 2.0;
        right[at] = source.whole(-6, 7) / 2.0;
        a[operand_at(block, row, k)] = A::encode(left[at]);
        b[operand_at(block, row, k)] = B::encode(right[at]);
      }
  for (int block = 0; block < blocks; ++block)
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        int lane, element;
        if (sizeof(Result) == 8) {
          lane = m == 4 ? j + 4 * block + 16 * i : j + 16 * (i % 4);
          element = m == 4 ? 0 : i / 4;
        } else {
          lane = m == 4 ? j + n * block : j + n * (i / 4 % groups);
          element = m == 4 ? i : i % 4 + 4 * (i / 4 / groups) + m * n / k_lanes * block;
        }
        const int at = lane * results + element;
        double sum = c[at] = static_cast<Result>(source.whole(-20, 20));
        for (int k = 0; k < k_size; ++k)
          sum += left[(block * m + i) * k_size + k] * right[(block * m + j) * k_size + k] * k_scale<A> * k_scale<B>;
        wanted[at] = static_cast<Result>(sum);
      }

  const DeviceArray<typename A::Storage> device_a(a);
  const DeviceArray<typename B::Storage> device_b(b);
  const DeviceArray<Result> device_c(c), device_d(k_lanes * results);
  kernel<<<1, k_lanes>>>(reinterpret_cast<const Operand*>(device_a.get()), reinterpret_cast<const Operand*>(device_b.get()),
                         reinterpret_cast<const Accumulator*>(device_c.get()),
                         reinterpret_cast<Accumulator*>(device_d.get()));
  HIP_DONE();
  tally.equal(what, device_d.read(), wanted);
}

template <typename T, int t_count>
using Registers = __attribute__((ext_vector_type(t_count))) T;

// TILE(f32_32x32x8f16, f16x4, Registers<float, 16>) defines the kernel; CHECK_TILE runs it.
#define TILE(name, operand, accumulator)                                                                     \
  __global__ void tile_##name(const operand* a, const operand* b, const accumulator* c, accumulator* d) {    \
    d[threadIdx.x] = __builtin_amdgcn_mfma_##name(a[threadIdx.x], b[threadIdx.x], c[threadIdx.x], 0, 0, 0);  \
  }
#define CHECK_TILE(name, a, b, m, k, blocks) check_tile<a, b>(tally, #name, tile_##name, m, k, blocks)
