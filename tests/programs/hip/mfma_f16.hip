// Matrix instructions on f16, summed in f32.
#include "mfma.hpp"

using f32x4 = Registers<float, 4>;
using f32x16 = Registers<float, 16>;
using f32x32 = Registers<float, 32>;

TILE(f32_32x32x4f16, f16x4, f32x32)
TILE(f32_16x16x4f16, f16x4, f32x16)
TILE(f32_4x4x4f16, f16x4, f32x4)
TILE(f32_32x32x8f16, f16x4, f32x16)
TILE(f32_16x16x16f16, f16x4, f32x4)

int main() {
  Tally tally("mfma_f16");
  CHECK_TILE(f32_32x32x4f16, F16, F16, 32, 4, 2);
  CHECK_TILE(f32_16x16x4f16, F16, F16, 16, 4, 4);
  CHECK_TILE(f32_4x4x4f16, F16, F16, 4, 4, 16);
  CHECK_TILE(f32_32x32x8f16, F16, F16, 32, 8, 1);
  CHECK_TILE(f32_16x16x16f16, F16, F16, 16, 16, 1);
  return tally.finish();
}
