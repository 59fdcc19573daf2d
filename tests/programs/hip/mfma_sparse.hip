// Sparse matrix instructions: of each four elements of A along k two are stored, and an index says which two.
//
// One wave, one block, N = M. A lane holds E stored elements of row lane % M: those of the 2 * E places k = 2 * E * (lane / M)
// and on; B's lane holds the 2 * E elements of column lane % N at the same places. Two bits of the index belong to each stored
// element: its place within its four. D is as in dense instructions.
#include "mfma.hpp"

using f16x8 = __attribute__((ext_vector_type(8))) _Float16;
using i16x8 = __attribute__((ext_vector_type(8))) short;
using i32x2 = __attribute__((ext_vector_type(2))) int;
using i32x4 = __attribute__((ext_vector_type(4))) int;
using f32x4 = Registers<float, 4>;
using f32x16 = Registers<float, 16>;
using i32x16 = Registers<int, 16>;

template <typename A, typename B, typename C>
using SparseKernel = void (*)(const A*, const B*, const int*, C*);

template <typename ElementA, typename ElementB, typename A, typename B, typename C>
void check_sparse(Tally& tally, const char* what, SparseKernel<A, B, C> kernel, int m, int k_size, int set) {
  using Result = std::remove_reference_t<decltype(std::declval<C&>()[0])>;
  constexpr int k_lanes = 64;
  const int stored = static_cast<int>(sizeof(A) / sizeof(typename ElementA::Storage)), places = 2 * stored;
  const int results = m * m / k_lanes, groups = k_lanes / m;
  std::vector<typename ElementA::Storage> a(k_lanes * stored);
  std::vector<typename ElementB::Storage> b(k_lanes * places);
  std::vector<int> index(k_lanes);
  std::vector<double> left(m * k_size, 0.0), right(m * k_size);
  std::vector<Result> c(k_lanes * results), wanted(k_lanes * results);
  Random source(7);
  for (int lane = 0; lane < k_lanes; ++lane) {
    const int row = lane % m, first = places * (lane / m);
    unsigned mine = 0;
    for (int e = 0; e < stored; ++e) {
      // The first of a pair lies before the second.
      const int four = e / 2 * 4;
      const int place = e % 2 == 0 ? source.whole(0, 3) : source.whole(static_cast<int>(mine >> (2 * (e - 1)) & 3) + 1, 4);
      mine |= static_cast<unsigned>(place) << (2 * e);
      const double value = source.whole(-6, 7) / 2.0;
      a[lane * stored + e] = ElementA::encode(value);
      left[row * k_size + first + four + place] = value;
    }
    // The sets that are not asked for hold something else.
    const int bits = 2 * stored;
    const unsigned others = static_cast<unsigned>(source.bits());
    const unsigned mask = bits == 32 ? ~0u : ((1u << bits) - 1) << (set * bits);
    index[lane] = static_cast<int>((others & ~mask) | (mine << (set * bits)));
    for (int p = 0; p < places; ++p) {
      right[row * k_size + first + p] = source.whole(-6, 7) / 2.0;
      b[lane * places + p] = ElementB::encode(right[row * k_size + first + p]);
    }
  }
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < m; ++j) {
      const int at = (j + m * (i / 4 % groups)) * results + i % 4 + 4 * (i / 4 / groups);
      double sum = c[at] = static_cast<Result>(source.whole(-20, 20));
      for (int k = 0; k < k_size; ++k)
        sum += left[i * k_size + k] * right[j * k_size + k] * k_scale<ElementA> * k_scale<ElementB>;
      wanted[at] = static_cast<Result>(sum);
    }
  const DeviceArray<typename ElementA::Storage> device_a(a);
  const DeviceArray<typename ElementB::Storage> device_b(b);
  const DeviceArray<int> device_index(index);
  const DeviceArray<Result> device_d(c);
  kernel<<<1, k_lanes>>>(reinterpret_cast<const A*>(device_a.get()), reinterpret_cast<const B*>(device_b.get()),
                         device_index.get(), reinterpret_cast<C*>(device_d.get()));
  HIP_DONE();
  tally.equal(what, device_d.read(), wanted);
}

#define SPARSE(name, operand_a, operand_b, accumulator, set)                                                          \
  __global__ void sparse_##name(const operand_a* a, const operand_b* b, const int* index, accumulator* d) {           \
    d[threadIdx.x] = __builtin_amdgcn_smfmac_##name(a[threadIdx.x], b[threadIdx.x], d[threadIdx.x], index[threadIdx.x], 0, set); \
  }
SPARSE(f32_16x16x32_f16, f16x4, f16x8, f32x4, 0)
SPARSE(f32_32x32x16_f16, f16x4, f16x8, f32x16, 3)
SPARSE(f32_16x16x32_bf16, i16x4, i16x8, f32x4, 1)
SPARSE(f32_32x32x16_bf16, i16x4, i16x8, f32x16, 2)
SPARSE(i32_16x16x64_i8, i32x2, i32x4, i32x4, 1)
SPARSE(i32_32x32x32_i8, i32x2, i32x4, i32x16, 0)
SPARSE(f32_16x16x64_fp8_fp8, i32x2, i32x4, f32x4, 0)
SPARSE(f32_16x16x64_fp8_bf8, i32x2, i32x4, f32x4, 1)
SPARSE(f32_32x32x32_bf8_fp8, i32x2, i32x4, f32x16, 1)
SPARSE(f32_32x32x32_bf8_bf8, i32x2, i32x4, f32x16, 0)

int main() {
  Tally tally("mfma_sparse");
#define CHECK_SPARSE(name, a, b, m, k, set) check_sparse<a, b>(tally, #name, sparse_##name, m, k, set)
  CHECK_SPARSE(f32_16x16x32_f16, F16, F16, 16, 32, 0);
  CHECK_SPARSE(f32_32x32x16_f16, F16, F16, 32, 16, 3);
  CHECK_SPARSE(f32_16x16x32_bf16, Bf16, Bf16, 16, 32, 1);
  CHECK_SPARSE(f32_32x32x16_bf16, Bf16, Bf16, 32, 16, 2);
  CHECK_SPARSE(i32_16x16x64_i8, I8, I8, 16, 64, 1);
  CHECK_SPARSE(i32_32x32x32_i8, I8, I8, 32, 32, 0);
  CHECK_SPARSE(f32_16x16x64_fp8_fp8, Fp8, Fp8, 16, 64, 0);
  CHECK_SPARSE(f32_16x16x64_fp8_bf8, Fp8, Bf8, 16, 64, 1);
  CHECK_SPARSE(f32_32x32x32_bf8_fp8, Bf8, Fp8, 32, 32, 1);
  CHECK_SPARSE(f32_32x32x32_bf8_bf8, Bf8, Bf8, 32, 32, 0);
  return tally.finish();
}
