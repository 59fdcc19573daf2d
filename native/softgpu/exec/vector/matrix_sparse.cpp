// SMFMAC of gfx942: A holds two of each four consecutive k, and the index register says which two; the sum is added to
// the destination. A is spread out to its full size, and the dense loops do the rest.
#include <algorithm>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/matrix_common.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

// Two bits for each stored element of a lane. CBSZ = 0 lets ABID choose one of the register's sets, else it is the
// first. Element s of a row of A lies in lane s / e * m + row, element s % e of it.
template <MatrixShape k_shape>
struct Sparse {
  static constexpr unsigned k_stored = k_shape.k / 2;
  static constexpr unsigned k_elements = k_stored * k_shape.m / 64;
  static constexpr unsigned k_set_bits = 2 * k_elements;

  template <class Place>
  static void spread(const Instruction& instruction, const Row& index, Place place) noexcept {
    const unsigned first = instruction.cbsz == 0 ? instruction.abid * k_set_bits % 32 : 0;
    for (unsigned s = 0; s < k_stored; ++s) {
      const unsigned element = s % k_elements;
      for (unsigned row = 0; row < k_shape.m; ++row) {
        const unsigned lane = s / k_elements * k_shape.m + row;
        const unsigned position = (index.lane[lane] >> (first + 2 * element)) & 3;
        place(s / 2 * 4 + position, row, element, lane);
      }
    }
  }
};

template <MatrixType k_a, MatrixType k_b, MatrixShape k_shape>
Flow float_sparse(WaveContext& wave, const Instruction& instruction) noexcept {
  using S = Sparse<k_shape>;
  Lanes<float> stored[S::k_elements], b[k_shape.elements_b()];
  unpack<k_a>(wave.source_row(instruction, 0), S::k_elements, false, stored);
  unpack<k_b>(wave.source_row(instruction, 1), k_shape.elements_b(), false, b);
  Lanes<float> a[k_shape.k] = {};
  S::spread(instruction, *wave.source_row(instruction, 2), [&](unsigned k, unsigned row, unsigned element, unsigned lane) {
    a[k].lane[row] += stored[element].lane[lane];
  });
  Row* result = wave.destination_row(instruction.dst);
  // A shape whose every k has 64 lanes of its own: a's layout.
  constexpr MatrixShape k_spread{64, 64, k_shape.k, 1};
  multiply_block<FloatMath, k_shape, k_spread, k_shape>(a->lane, b->lane, 0, Addend{result, false}, result);
  return Flow::next;
}

template <MatrixShape k_shape>
Flow byte_sparse(WaveContext& wave, const Instruction& instruction) noexcept {
  using S = Sparse<k_shape>;
  constexpr MatrixShape k_pairs{k_shape.m, k_shape.n, k_shape.k / 2, 1};
  Lanes<std::uint32_t> b[k_pairs.elements_b()], a[k_pairs.k] = {};
  unpack_bytes(wave.source_row(instruction, 1), k_shape.elements_b(), b);
  const Row* stored = wave.source_row(instruction, 0);
  S::spread(instruction, *wave.source_row(instruction, 2), [&](unsigned k, unsigned row, unsigned element, unsigned lane) {
    const std::uint32_t byte = (stored[element / 4].lane[lane] >> (8 * (element % 4))) & 0xFF;
    const std::uint32_t widened = ((byte ^ 0x80) - 0x80) & 0xFFFF;
    a[k / 2].lane[row] |= widened << (16 * (k % 2));
  });
  Row* result = wave.destination_row(instruction.dst);
  constexpr MatrixShape k_spread{64, 64, k_pairs.k, 1};
  multiply_block<IntegerMath, k_pairs, k_spread, k_pairs>(a->lane, b->lane, 0, Addend{result, false}, result);
  return Flow::next;
}

// BLGP means nothing here.
template <Handler k_handler>
Handler make(Target, Instruction& instruction) {
  return matrix_operands_fit(instruction, false) ? k_handler : nullptr;
}
template <MatrixType k_a, MatrixType k_b, unsigned k_m, unsigned k_k>
constexpr HandlerFactory k_float = make<float_sparse<k_a, k_b, MatrixShape{k_m, k_m, k_k, 1}>>;
template <unsigned k_m, unsigned k_k>
constexpr HandlerFactory k_bytes = make<byte_sparse<MatrixShape{k_m, k_m, k_k, 1}>>;

using enum MatrixType;

}  // namespace

void register_sparse_matrix(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_smfmac_f32_16x16x32_f16", k_float<f16, f16, 16, 32>},
      {"v_smfmac_f32_32x32x16_f16", k_float<f16, f16, 32, 16>},
      {"v_smfmac_f32_16x16x32_bf16", k_float<bf16, bf16, 16, 32>},
      {"v_smfmac_f32_32x32x16_bf16", k_float<bf16, bf16, 32, 16>},
      {"v_smfmac_i32_16x16x64_i8", k_bytes<16, 64>},
      {"v_smfmac_i32_32x32x32_i8", k_bytes<32, 32>},
      {"v_smfmac_f32_16x16x64_fp8_fp8", k_float<fp8, fp8, 16, 64>},
      {"v_smfmac_f32_16x16x64_fp8_bf8", k_float<fp8, bf8, 16, 64>},
      {"v_smfmac_f32_16x16x64_bf8_fp8", k_float<bf8, fp8, 16, 64>},
      {"v_smfmac_f32_16x16x64_bf8_bf8", k_float<bf8, bf8, 16, 64>},
      {"v_smfmac_f32_32x32x32_fp8_fp8", k_float<fp8, fp8, 32, 32>},
      {"v_smfmac_f32_32x32x32_fp8_bf8", k_float<fp8, bf8, 32, 32>},
      {"v_smfmac_f32_32x32x32_bf8_fp8", k_float<bf8, fp8, 32, 32>},
      {"v_smfmac_f32_32x32x32_bf8_bf8", k_float<bf8, bf8, 32, 32>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
