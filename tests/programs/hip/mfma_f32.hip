// Matrix instructions on f32.
#include "mfma.hpp"

using f32x4 = Registers<float, 4>;
using f32x16 = Registers<float, 16>;
using f32x32 = Registers<float, 32>;

TILE(f32_32x32x1f32, float, f32x32)
TILE(f32_16x16x1f32, float, f32x16)
TILE(f32_4x4x1f32, float, f32x4)
TILE(f32_32x32x2f32, float, f32x16)
TILE(f32_16x16x4f32, float, f32x4)

int main() {
  Tally tally("mfma_f32");
  CHECK_TILE(f32_32x32x1f32, F32, F32, 32, 1, 2);
  CHECK_TILE(f32_16x16x1f32, F32, F32, 16, 1, 4);
  CHECK_TILE(f32_4x4x1f32, F32, F32, 4, 1, 16);
  CHECK_TILE(f32_32x32x2f32, F32, F32, 32, 2, 1);
  CHECK_TILE(f32_16x16x4f32, F32, F32, 16, 4, 1);
  return tally.finish();
}
