// Matrix instructions on bf16, summed in f32: four elements in a lane.
#include "mfma.hpp"

using f32x4 = Registers<float, 4>;
using f32x16 = Registers<float, 16>;
using f32x32 = Registers<float, 32>;

TILE(f32_32x32x4bf16_1k, i16x4, f32x32)
TILE(f32_16x16x4bf16_1k, i16x4, f32x16)
TILE(f32_4x4x4bf16_1k, i16x4, f32x4)
TILE(f32_32x32x8bf16_1k, i16x4, f32x16)
TILE(f32_16x16x16bf16_1k, i16x4, f32x4)

int main() {
  Tally tally("mfma_bf16");
  CHECK_TILE(f32_32x32x4bf16_1k, Bf16, Bf16, 32, 4, 2);
  CHECK_TILE(f32_16x16x4bf16_1k, Bf16, Bf16, 16, 4, 4);
  CHECK_TILE(f32_4x4x4bf16_1k, Bf16, Bf16, 4, 4, 16);
  CHECK_TILE(f32_32x32x8bf16_1k, Bf16, Bf16, 32, 8, 1);
  CHECK_TILE(f32_16x16x16bf16_1k, Bf16, Bf16, 16, 16, 1);
  return tally.finish();
}
