// Matrix instructions on xf32: f32 storage, of which few mantissa bits are used.
#include "mfma.hpp"

using f32x4 = Registers<float, 4>;
using f32x16 = Registers<float, 16>;

TILE(f32_16x16x8_xf32, f32x2, f32x4)
TILE(f32_32x32x4_xf32, f32x2, f32x16)

int main() {
  Tally tally("mfma_xf32");
  CHECK_TILE(f32_16x16x8_xf32, F32, F32, 16, 8, 1);
  CHECK_TILE(f32_32x32x4_xf32, F32, F32, 32, 4, 1);
  return tally.finish();
}
