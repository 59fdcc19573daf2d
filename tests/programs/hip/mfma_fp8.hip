// Matrix instructions on the two 8-bit floats of gfx942, in all pairings.
#include "mfma.hpp"

using f32x4 = Registers<float, 4>;
using f32x16 = Registers<float, 16>;

TILE(f32_16x16x32_fp8_fp8, long, f32x4)
TILE(f32_16x16x32_fp8_bf8, long, f32x4)
TILE(f32_16x16x32_bf8_fp8, long, f32x4)
TILE(f32_16x16x32_bf8_bf8, long, f32x4)
TILE(f32_32x32x16_fp8_fp8, long, f32x16)
TILE(f32_32x32x16_fp8_bf8, long, f32x16)
TILE(f32_32x32x16_bf8_fp8, long, f32x16)
TILE(f32_32x32x16_bf8_bf8, long, f32x16)

int main() {
  Tally tally("mfma_fp8");
  CHECK_TILE(f32_16x16x32_fp8_fp8, Fp8, Fp8, 16, 32, 1);
  CHECK_TILE(f32_16x16x32_fp8_bf8, Fp8, Bf8, 16, 32, 1);
  CHECK_TILE(f32_16x16x32_bf8_fp8, Bf8, Fp8, 16, 32, 1);
  CHECK_TILE(f32_16x16x32_bf8_bf8, Bf8, Bf8, 16, 32, 1);
  CHECK_TILE(f32_32x32x16_fp8_fp8, Fp8, Fp8, 32, 16, 1);
  CHECK_TILE(f32_32x32x16_fp8_bf8, Fp8, Bf8, 32, 16, 1);
  CHECK_TILE(f32_32x32x16_bf8_fp8, Bf8, Fp8, 32, 16, 1);
  CHECK_TILE(f32_32x32x16_bf8_bf8, Bf8, Bf8, 32, 16, 1);
  return tally.finish();
}
