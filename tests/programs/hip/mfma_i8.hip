// Matrix instructions on 8-bit integers, summed in i32, that all targets have.
#include "mfma.hpp"

using i32x4 = Registers<int, 4>;
using i32x16 = Registers<int, 16>;
using i32x32 = Registers<int, 32>;

TILE(i32_32x32x4i8, int, i32x32)
TILE(i32_16x16x4i8, int, i32x16)
TILE(i32_4x4x4i8, int, i32x4)

int main() {
  Tally tally("mfma_i8");
  CHECK_TILE(i32_32x32x4i8, I8, I8, 32, 4, 2);
  CHECK_TILE(i32_16x16x4i8, I8, I8, 16, 4, 4);
  CHECK_TILE(i32_4x4x4i8, I8, I8, 4, 4, 16);
  return tally.finish();
}
