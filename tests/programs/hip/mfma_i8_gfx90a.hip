// Matrix instructions on 8-bit integers, four elements in a lane; gfx942 dropped them.
#include "mfma.hpp"

using i32x4 = Registers<int, 4>;
using i32x16 = Registers<int, 16>;

TILE(i32_32x32x8i8, int, i32x16)
TILE(i32_16x16x16i8, int, i32x4)

int main() {
  Tally tally("mfma_i8_gfx90a");
  CHECK_TILE(i32_32x32x8i8, I8, I8, 32, 8, 1);
  CHECK_TILE(i32_16x16x16i8, I8, I8, 16, 16, 1);
  return tally.finish();
}
