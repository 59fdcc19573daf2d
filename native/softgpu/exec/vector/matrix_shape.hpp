// How the matrices of an MFMA lie in registers.
//
// B blocks of D[M][N] += A[M][K] * B[K][N]. An input lane holds e = K * M * blocks / 64 consecutive k of one row of A
// (or column of B, with N for M); lane = (k / e) * M * blocks + block * M + row. The results of a column lie in four
// consecutive registers (f64: one pair), then in the next group of N lanes, then in the next four registers.
#pragma once

#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

struct MatrixShape {
  unsigned m, n, k, blocks = 1;
  unsigned height = 4;  // consecutive rows in one lane: 4 for 32-bit results, 1 for 64-bit ones

  [[nodiscard]] constexpr unsigned elements_a() const { return k * m * blocks / 64; }
  [[nodiscard]] constexpr unsigned elements_b() const { return k * n * blocks / 64; }

  // Inputs unpacked to [element][64 lanes]: where k's row begins, for block 0.
  [[nodiscard]] constexpr unsigned offset_a(unsigned at) const {
    return at % elements_a() * 64 + at / elements_a() * m * blocks;
  }
  [[nodiscard]] constexpr unsigned offset_b(unsigned at) const {
    return at % elements_b() * 64 + at / elements_b() * n * blocks;
  }

  // Results: the register (or pair) and first lane of a row. The 4x4 shapes, several blocks to a register, have
  // kernels of their own.
  [[nodiscard]] constexpr unsigned rows_per_register() const { return 64 / n; }
  [[nodiscard]] constexpr unsigned result_register(unsigned block, unsigned row) const {
    return block * (m * n / 64) + row / (height * rows_per_register()) * height + row % height;
  }
  [[nodiscard]] constexpr unsigned result_lane(unsigned row) const { return row / height % rows_per_register() * n; }
};

}  // namespace kerncap::softgpu
