// Matrix instructions on f64.
#include "mfma.hpp"

using f64x1 = Registers<double, 1>;
using f64x4 = Registers<double, 4>;

TILE(f64_16x16x4f64, double, f64x4)

// This builtin gives a plain double.
__global__ void tile_f64_4x4x4f64(const double* a, const double* b, const f64x1* c, f64x1* d) {
  d[threadIdx.x][0] = __builtin_amdgcn_mfma_f64_4x4x4f64(a[threadIdx.x], b[threadIdx.x], c[threadIdx.x][0], 0, 0, 0);
}

int main() {
  Tally tally("mfma_f64");
  CHECK_TILE(f64_16x16x4f64, F64, F64, 16, 4, 1);
  CHECK_TILE(f64_4x4x4f64, F64, F64, 4, 4, 4);
  return tally.finish();
}
