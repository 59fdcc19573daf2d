// Matrix instructions on 8-bit integers, eight elements in a lane.
#include "mfma.hpp"

using i32x4 = Registers<int, 4>;
using i32x16 = Registers<int, 16>;

TILE(i32_32x32x16_i8, long, i32x16)
TILE(i32_16x16x32_i8, long, i32x4)

int main() {
  Tally tally("mfma_i8_gfx942");
  CHECK_TILE(i32_32x32x16_i8, I8, I8, 32, 16, 1);
  CHECK_TILE(i32_16x16x32_i8, I8, I8, 16, 32, 1);
  return tally.finish();
}
