// MFMA: dense matrix products of every type and shape of gfx90a and gfx942.
//
// Each result is a chain of fused multiply-adds in order of k, starting from the addend: within the rounding of any
// order that hardware may use, which is not published. EXEC does not apply.
#include <algorithm>
#include <cmath>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/lane_transfer.hpp"
#include "softgpu/exec/vector/matrix_common.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

// BLGP: from which lane each lane of B comes.
[[nodiscard]] constexpr unsigned lane_of_b(unsigned pattern, unsigned lane) noexcept {
  switch (pattern) {
    case 0: return lane;
    case 1: return lane % 32;
    case 2: return lane % 32 + 32;
    case 3: return (lane + 16) % 64;
    default: return lane % 16 + 16 * (pattern - 4);
  }
}
template <class T>
void permute_b(unsigned pattern, Lanes<T>* values, unsigned count) noexcept {
  if (pattern == 0) return;
  for (unsigned v = 0; v < count; ++v) {
    const Lanes<T> old = values[v];
    for (unsigned lane = 0; lane < k_lanes; ++lane) values[v].lane[lane] = old.lane[lane_of_b(pattern, lane)];
  }
}

// CBSZ and ABID: groups of 2^cbsz blocks all use the A of one of them.
[[nodiscard]] unsigned block_of_a(const Instruction& instruction, unsigned block) noexcept {
  return (block >> instruction.cbsz << instruction.cbsz) + (instruction.cbsz == 0 ? 0 : instruction.abid);
}
template <class T>
void permute_a_4x4(const Instruction& instruction, Lanes<T>* values, unsigned count) noexcept {
  if (instruction.cbsz == 0) return;
  for (unsigned v = 0; v < count; ++v) {
    const Lanes<T> old = values[v];
    for (unsigned lane = 0; lane < k_lanes; ++lane) {
      values[v].lane[lane] = old.lane[4 * block_of_a(instruction, lane / 4) + lane % 4];
    }
  }
}

template <class Math, MatrixShape k_shape>
void multiply(const Instruction& instruction, Lanes<typename Math::Input>* a, Lanes<typename Math::Input>* b,
              const Addend& addend, Row* result) noexcept {
  permute_b(instruction.blgp, b, k_shape.elements_b());
  if constexpr (k_shape.m == 4) {
    permute_a_4x4(instruction, a, k_shape.elements_a());
    multiply_4x4<Math>(a, b, k_shape.k, addend, result);
  } else {
    for (unsigned block = 0; block < k_shape.blocks; ++block) {
      multiply_block<Math, k_shape, k_shape, k_shape>(a->lane + block_of_a(instruction, block) * k_shape.m,
                                                      b->lane + block * k_shape.n, block, addend, result);
    }
  }
}

template <MatrixType k_a, MatrixType k_b, MatrixShape k_shape>
Flow float_matrix(WaveContext& wave, const Instruction& instruction) noexcept {
  Lanes<float> a[k_shape.elements_a()], b[k_shape.elements_b()];
  const bool flush = flushes(wave.target, k_a);
  unpack<k_a>(wave.source_row(instruction, 0), k_shape.elements_a(), flush, a);
  unpack<k_b>(wave.source_row(instruction, 1), k_shape.elements_b(), flush, b);
  const MatrixFlushScope scope(flush);
  multiply<FloatMath, k_shape>(instruction, a, b, addend_of(wave, instruction), wave.destination_row(instruction.dst));
  return Flow::next;
}

// k_shape counts pairs of k.
template <MatrixShape k_shape>
Flow byte_matrix(WaveContext& wave, const Instruction& instruction) noexcept {
  Lanes<std::uint32_t> a[k_shape.elements_a()], b[k_shape.elements_b()];
  unpack_bytes(wave.source_row(instruction, 0), 2 * k_shape.elements_a(), a);
  unpack_bytes(wave.source_row(instruction, 1), 2 * k_shape.elements_b(), b);
  multiply<IntegerMath, k_shape>(instruction, a, b, addend_of(wave, instruction),
                                 wave.destination_row(instruction.dst));
  return Flow::next;
}

// f64: 16x16x4, or four blocks of 4x4x4. BLGP negates A, B and the addend (gfx942 only).
template <unsigned k_size, unsigned k_blocks>
Flow double_matrix(WaveContext& wave, const Instruction& instruction) noexcept {
  constexpr unsigned k_depth = 4, k_stride = k_size * k_blocks;  // lanes from one k, or one row, to the next
  constexpr unsigned k_pairs = k_size * k_size * k_blocks / 64;
  Lanes<std::uint64_t> a, b, sums[k_pairs];
  join_rows(wave.source_row(instruction, 0), a);
  join_rows(wave.source_row(instruction, 1), b);
  const Row* addend = wave.source_row(instruction, 2);
  const bool is_constant = instruction.src[2].kind == OperandKind::constant;
  for (unsigned p = 0; p < k_pairs; ++p) join_rows(addend + (is_constant ? 0 : 2 * p), sums[p]);
  const auto value = [&](const Lanes<std::uint64_t>& from, unsigned lane, unsigned operand) {
    return std::bit_cast<double>(from.lane[lane] ^ (std::uint64_t{(instruction.blgp >> operand) & 1U} << 63));
  };
  for (unsigned block = 0; block < k_blocks; ++block) {
    for (unsigned i = 0; i < k_size; ++i) {
      std::uint64_t* row = &sums[i * k_stride / k_lanes].lane[i * k_stride % k_lanes + block * k_size];
      for (unsigned j = 0; j < k_size; ++j) {
        double sum = std::bit_cast<double>(row[j] ^ (std::uint64_t{(instruction.blgp >> 2) & 1U} << 63));
        for (unsigned k = 0; k < k_depth; ++k) {
          sum = std::fma(value(a, k * k_stride + block * k_size + i, 0), value(b, k * k_stride + block * k_size + j, 1), sum);
        }
        row[j] = std::bit_cast<std::uint64_t>(sum);
      }
    }
  }
  Row* result = wave.destination_row(instruction.dst);
  for (unsigned p = 0; p < k_pairs; ++p) split_lanes(sums[p], result + 2 * p);
  return Flow::next;
}

template <unsigned k_blocks>
[[nodiscard]] bool broadcast_fits(const Instruction& instruction) noexcept {
  return (1U << instruction.cbsz) <= k_blocks && (instruction.cbsz == 0 || instruction.abid < (1U << instruction.cbsz));
}

template <MatrixType k_a, MatrixType k_b, MatrixShape k_shape>
Handler make_float(Target, Instruction& instruction) {
  const bool fits = matrix_operands_fit(instruction, true) && broadcast_fits<k_shape.blocks>(instruction);
  return fits ? float_matrix<k_a, k_b, k_shape> : nullptr;
}
template <MatrixType k_type, unsigned k_m, unsigned k_k, unsigned k_blocks = 1>
constexpr HandlerFactory k_float = make_float<k_type, k_type, MatrixShape{k_m, k_m, k_k, k_blocks}>;
template <MatrixType k_a, MatrixType k_b, unsigned k_m, unsigned k_k>
constexpr HandlerFactory k_mixed = make_float<k_a, k_b, MatrixShape{k_m, k_m, k_k, 1}>;

template <unsigned k_m, unsigned k_k, unsigned k_blocks = 1>
Handler bytes(Target, Instruction& instruction) {
  const bool fits = matrix_operands_fit(instruction, true) && broadcast_fits<k_blocks>(instruction);
  return fits ? byte_matrix<MatrixShape{k_m, k_m, k_k / 2, k_blocks}> : nullptr;
}

template <unsigned k_size, unsigned k_blocks>
Handler doubles(Target target, Instruction& instruction) {
  const bool fits = matrix_operands_fit(instruction, true) && instruction.cbsz == 0 &&
                    (instruction.blgp == 0 || traits(target).f64_matrix_negates);
  return fits ? double_matrix<k_size, k_blocks> : nullptr;
}

using enum MatrixType;

}  // namespace

void register_matrix(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_mfma_f32_32x32x1_2b_f32", k_float<f32, 32, 1, 2>},
      {"v_mfma_f32_16x16x1_4b_f32", k_float<f32, 16, 1, 4>},
      {"v_mfma_f32_4x4x1_16b_f32", k_float<f32, 4, 1, 16>},
      {"v_mfma_f32_32x32x2_f32", k_float<f32, 32, 2>},
      {"v_mfma_f32_16x16x4_f32", k_float<f32, 16, 4>},
      {"v_mfma_f32_32x32x4_xf32", k_float<xf32, 32, 4>},
      {"v_mfma_f32_16x16x8_xf32", k_float<xf32, 16, 8>},
      {"v_mfma_f32_32x32x4_2b_f16", k_float<f16, 32, 4, 2>},
      {"v_mfma_f32_16x16x4_4b_f16", k_float<f16, 16, 4, 4>},
      {"v_mfma_f32_4x4x4_16b_f16", k_float<f16, 4, 4, 16>},
      {"v_mfma_f32_32x32x8_f16", k_float<f16, 32, 8>},
      {"v_mfma_f32_16x16x16_f16", k_float<f16, 16, 16>},
      // bf16 two to a lane (gfx90a), then four.
      {"v_mfma_f32_32x32x2_2b_bf16", k_float<bf16, 32, 2, 2>},
      {"v_mfma_f32_16x16x2_4b_bf16", k_float<bf16, 16, 2, 4>},
      {"v_mfma_f32_4x4x2_16b_bf16", k_float<bf16, 4, 2, 16>},
      {"v_mfma_f32_32x32x4_bf16", k_float<bf16, 32, 4>},
      {"v_mfma_f32_16x16x8_bf16", k_float<bf16, 16, 8>},
      {"v_mfma_f32_32x32x4_2b_bf16", k_float<bf16, 32, 4, 2>},
      {"v_mfma_f32_16x16x4_4b_bf16", k_float<bf16, 16, 4, 4>},
      {"v_mfma_f32_4x4x4_16b_bf16", k_float<bf16, 4, 4, 16>},
      {"v_mfma_f32_32x32x8_bf16", k_float<bf16, 32, 8>},
      {"v_mfma_f32_16x16x16_bf16", k_float<bf16, 16, 16>},
      {"v_mfma_f32_32x32x16_fp8_fp8", k_mixed<fp8, fp8, 32, 16>},
      {"v_mfma_f32_32x32x16_fp8_bf8", k_mixed<fp8, bf8, 32, 16>},
      {"v_mfma_f32_32x32x16_bf8_fp8", k_mixed<bf8, fp8, 32, 16>},
      {"v_mfma_f32_32x32x16_bf8_bf8", k_mixed<bf8, bf8, 32, 16>},
      {"v_mfma_f32_16x16x32_fp8_fp8", k_mixed<fp8, fp8, 16, 32>},
      {"v_mfma_f32_16x16x32_fp8_bf8", k_mixed<fp8, bf8, 16, 32>},
      {"v_mfma_f32_16x16x32_bf8_fp8", k_mixed<bf8, fp8, 16, 32>},
      {"v_mfma_f32_16x16x32_bf8_bf8", k_mixed<bf8, bf8, 16, 32>},
      {"v_mfma_i32_32x32x4_2b_i8", bytes<32, 4, 2>},
      {"v_mfma_i32_16x16x4_4b_i8", bytes<16, 4, 4>},
      {"v_mfma_i32_4x4x4_16b_i8", bytes<4, 4, 16>},
      {"v_mfma_i32_32x32x8_i8", bytes<32, 8>},
      {"v_mfma_i32_16x16x16_i8", bytes<16, 16>},
      {"v_mfma_i32_32x32x16_i8", bytes<32, 16>},
      {"v_mfma_i32_16x16x32_i8", bytes<16, 32>},
      {"v_mfma_f64_16x16x4_f64", doubles<16, 1>},
      {"v_mfma_f64_4x4x4_4b_f64", doubles<4, 4>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
