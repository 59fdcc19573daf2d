// The inner loops of the matrix instructions. Columns are the vector dimension: a row of results is contiguous in lanes,
// and so is a row of B; elements of A are broadcast. Several rows at a time hide the latency of the multiply-adds.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "softgpu/exec/vector/element.hpp"
#include "softgpu/exec/vector/matrix_shape.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

// Where the addend comes from: registers, or one constant row for all of them.
struct Addend {
  const Row* rows;
  bool is_constant;
  [[nodiscard]] const Row& row(unsigned i) const noexcept { return rows[is_constant ? 0 : i]; }
};

// Vectors and operations of one accumulator type.
struct FloatMath {
  using Vector = __m256;
  using Input = float;
  static Vector load(const std::uint32_t* p) noexcept { return _mm256_load_ps(reinterpret_cast<const float*>(p)); }
  static void store(std::uint32_t* p, Vector v) noexcept { _mm256_store_ps(reinterpret_cast<float*>(p), v); }
  static Vector input(const float* p) noexcept { return _mm256_load_ps(p); }
  static Vector broadcast(const float* p) noexcept { return _mm256_broadcast_ss(p); }
  // The lane of each four that `lane_of_four` names, in all four.
  static Vector pick(const float* p, __m256i lane_of_four) noexcept { return _mm256_permutevar_ps(input(p), lane_of_four); }
  static Vector multiply_add(Vector a, Vector b, Vector c) noexcept { return _mm256_fmadd_ps(a, b, c); }
};
// Pairs of 16-bit integers: one step covers two k.
struct IntegerMath {
  using Vector = __m256i;
  using Input = std::uint32_t;
  static Vector load(const std::uint32_t* p) noexcept { return _mm256_load_si256(reinterpret_cast<const Vector*>(p)); }
  static void store(std::uint32_t* p, Vector v) noexcept { _mm256_store_si256(reinterpret_cast<Vector*>(p), v); }
  static Vector input(const std::uint32_t* p) noexcept { return load(p); }
  static Vector broadcast(const std::uint32_t* p) noexcept { return _mm256_set1_epi32(static_cast<int>(*p)); }
  static Vector pick(const std::uint32_t* p, __m256i lane_of_four) noexcept {
    return _mm256_castps_si256(_mm256_permutevar_ps(_mm256_castsi256_ps(load(p)), lane_of_four));
  }
  static Vector multiply_add(Vector a, Vector b, Vector c) noexcept {
    return _mm256_add_epi32(c, _mm256_madd_epi16(a, b));
  }
};

// One block of 32 x 32 or 16 x 16 results. k_layout_a and k_layout_b say where the row of each step begins; k_shape.k
// counts steps.
template <class Math, MatrixShape k_shape, MatrixShape k_layout_a, MatrixShape k_layout_b>
inline void multiply_block(const typename Math::Input* a, const typename Math::Input* b, unsigned block,
                           const Addend& addend, Row* result) noexcept {
  constexpr unsigned k_columns = k_shape.n / 8;      // vectors in a row
  constexpr unsigned k_rows = 8 / k_columns;         // rows at a time: eight accumulators
  for (unsigned row = 0; row < k_shape.m; row += k_rows) {
    typename Math::Vector sum[k_rows][k_columns];
#pragma GCC unroll 4
    for (unsigned r = 0; r < k_rows; ++r) {
      const std::uint32_t* from = &addend.row(k_shape.result_register(block, row + r)).lane[k_shape.result_lane(row + r)];
#pragma GCC unroll 4
      for (unsigned c = 0; c < k_columns; ++c) sum[r][c] = Math::load(from + 8 * c);
    }
#pragma GCC unroll 8
    for (unsigned k = 0; k < k_shape.k; ++k) {
      const auto* b_row = b + k_layout_b.offset_b(k);
      const auto* a_row = a + k_layout_a.offset_a(k) + row;
#pragma GCC unroll 4
      for (unsigned r = 0; r < k_rows; ++r) {
        const auto factor = Math::broadcast(a_row + r);
#pragma GCC unroll 4
        for (unsigned c = 0; c < k_columns; ++c) {
          sum[r][c] = Math::multiply_add(factor, Math::input(b_row + 8 * c), sum[r][c]);
        }
      }
    }
#pragma GCC unroll 4
    for (unsigned r = 0; r < k_rows; ++r) {
      std::uint32_t* to = &result[k_shape.result_register(block, row + r)].lane[k_shape.result_lane(row + r)];
#pragma GCC unroll 4
      for (unsigned c = 0; c < k_columns; ++c) Math::store(to + 8 * c, sum[r][c]);
    }
  }
}

// Sixteen 4 x 4 blocks, four lanes each: row i of every block is register i, and A's element for it is lane i of the
// block's four.
template <class Math>
inline void multiply_4x4(const Lanes<typename Math::Input>* a, const Lanes<typename Math::Input>* b, unsigned steps,
                         const Addend& addend, Row* result) noexcept {
  for (unsigned row = 0; row < 4; ++row) {
    const __m256i lane_of_four = _mm256_set1_epi32(static_cast<int>(row));
    for (unsigned lane = 0; lane < k_lanes; lane += 8) {
      auto sum = Math::load(&addend.row(row).lane[lane]);
      for (unsigned k = 0; k < steps; ++k) {
        sum = Math::multiply_add(Math::pick(&a[k].lane[lane], lane_of_four), Math::input(&b[k].lane[lane]), sum);
      }
      Math::store(&result[row].lane[lane], sum);
    }
  }
}

}  // namespace kerncap::softgpu
