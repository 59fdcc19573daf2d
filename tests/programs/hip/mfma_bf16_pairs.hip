// The older matrix instructions on bf16, with two elements in a lane; gfx942 dropped them.
#include "mfma.hpp"

using f32x4 = Registers<float, 4>;
using f32x16 = Registers<float, 16>;
using f32x32 = Registers<float, 32>;

TILE(f32_32x32x2bf16, i16x2, f32x32)
TILE(f32_16x16x2bf16, i16x2, f32x16)
TILE(f32_4x4x2bf16, i16x2, f32x4)
TILE(f32_32x32x4bf16, i16x2, f32x16)
TILE(f32_16x16x8bf16, i16x2, f32x4)

int main() {
  Tally tally("mfma_bf16_pairs");
  CHECK_TILE(f32_32x32x2bf16, Bf16, Bf16, 32, 2, 2);
  CHECK_TILE(f32_16x16x2bf16, Bf16, Bf16, 16, 2, 4);
  CHECK_TILE(f32_4x4x2bf16, Bf16, Bf16, 4, 2, 16);
  CHECK_TILE(f32_32x32x4bf16, Bf16, Bf16, 32, 4, 1);
  CHECK_TILE(f32_16x16x8bf16, Bf16, Bf16, 16, 8, 1);
  return tally.finish();
}
