// Packed instructions: one function on both halves of the registers. A register is two halves a lane, as in memory;
// sources whose halves are exchanged, repeated or negated are put into that order first.
#pragma once

#include <array>
#include <cstring>

#include "softgpu/exec/vector/lanewise.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

inline constexpr unsigned k_parts = 2;  // the halves of a row fill two arrays of a half for each lane
template <class T>
using Halves = std::array<Lanes<Storage<T>>, k_parts>;

// Source i with op_sel (the low result's half), op_sel_hi (the high one's), and the signs of neg and neg_hi.
[[nodiscard]] inline const Row& selected_halves(WaveContext& wave, const Instruction& instruction, unsigned i,
                                                bool is_float, Row& buffer) noexcept {
  const Row& row = *wave.source_row(instruction, i);
  const bool swap_low = ((instruction.op_sel >> i) & 1) != 0, keep_high = ((instruction.op_sel_hi >> i) & 1) != 0;
  const std::uint32_t flip = !is_float ? 0
                                       : (((instruction.neg >> i) & 1) != 0 ? 0x8000U : 0U) |
                                             (((instruction.neg_hi >> i) & 1) != 0 ? 0x80000000U : 0U);
  if (!swap_low && keep_high && flip == 0) return row;
  const unsigned low_shift = swap_low ? 16 : 0, high_shift = keep_high ? 16 : 0;
  for (unsigned lane = 0; lane < k_lanes; ++lane) {
    const std::uint32_t low = (row.lane[lane] >> low_shift) & 0xFFFF, high = row.lane[lane] >> high_shift;
    buffer.lane[lane] = (low | (high << 16)) ^ flip;
  }
  return buffer;
}

// The halves of a row to the storage that the lane loop reads, and back.
template <class T>
inline void unpack_row(const WaveContext& wave, const Row& row, Halves<T>& out) noexcept {
  if constexpr (k_is_half<T>) {
    for (unsigned p = 0; p < k_parts; ++p) {
      for (unsigned i = 0; i < k_lanes; i += k_step) {
        const auto* from = reinterpret_cast<const __m128i*>(&row.lane[(p * k_lanes + i) / 2]);
        _mm256_store_ps(&out[p].lane[i], _mm256_cvtph_ps(_mm_load_si128(from)));
      }
      if constexpr (std::is_same_v<T, OrderedHalf>) {
        Lanes<std::uint16_t> halves;
        std::memcpy(&halves, &row.lane[p * k_lanes / 2], sizeof halves);
        restore_signaling(halves, out[p]);
      }
      if (!f16_mode_is_default(wave)) [[unlikely]] flush_f16_sources(wave, out[p]);
    }
  } else {
    static_assert(sizeof out == k_lanes * 4);
    std::memcpy(out.data(), &row, sizeof out);
  }
}
template <class T>
inline void pack_row(const Halves<T>& in, Row& row) noexcept {
  if constexpr (k_is_half<T>) {
    for (unsigned p = 0; p < k_parts; ++p) {
      for (unsigned i = 0; i < k_lanes; i += k_step) {
        auto* to = reinterpret_cast<__m128i*>(&row.lane[(p * k_lanes + i) / 2]);
        _mm_store_si128(to, _mm256_cvtps_ph(_mm256_load_ps(&in[p].lane[i]), _MM_FROUND_CUR_DIRECTION));
      }
    }
  } else {
    std::memcpy(&row, in.data(), sizeof in);
  }
}

template <auto k_function, class R, class... A, std::size_t... k_index>
inline void run_packed(WaveContext& wave, const Instruction& instruction, std::tuple<A...>*,
                       std::index_sequence<k_index...>) noexcept {
  std::tuple<Halves<A>...> sources;
  Row selected;
  (unpack_row<A>(wave, selected_halves(wave, instruction, k_index, k_is_half<A>, selected), std::get<k_index>(sources)),
   ...);
  Halves<R> result;
  for (unsigned p = 0; p < k_parts; ++p) {
    run_lanes<k_function, R, A...>(result[p].lane, std::get<k_index>(sources)[p].lane...);
    if constexpr (k_is_half<R>) {
      if (instruction.clamp) finish_result(wave, instruction, result[p]);
      if (!f16_mode_is_default(wave)) [[unlikely]] flush_f16_results(wave, result[p]);
    }
  }
  Row packed;
  pack_row<R>(result, packed);
  commit_plain(wave, instruction, &packed, 1);
}

template <auto k_function>
Flow packed_handler(WaveContext& wave, const Instruction& instruction) noexcept {
  using S = SignatureOf<k_function>;
  using Sources = typename S::Sources;
  const auto run = [&] {
    run_packed<k_function, typename S::Result>(wave, instruction, static_cast<Sources*>(nullptr),
                                               std::make_index_sequence<std::tuple_size_v<Sources>>{});
  };
  if constexpr (S::k_any_float) {
    const FloatModeScope scope(wave, FloatWidth::f16_f64);
    run();
  } else {
    run();
  }
  return Flow::next;
}

// k_saturating: the integer function to use with clamp.
template <auto k_function, auto k_saturating>
Handler packed(Target target, Instruction& instruction) {
  if (!form_is_supported(target, instruction)) return nullptr;
  return instruction.clamp ? packed_handler<k_saturating> : packed_handler<k_function>;
}
template <auto k_function>
Handler packed(Target target, Instruction& instruction) {
  constexpr bool k_float = k_is_half<typename SignatureOf<k_function>::Result>;
  if (!k_float && instruction.clamp) return nullptr;
  return form_is_supported(target, instruction) ? packed_handler<k_function> : nullptr;
}

}  // namespace kerncap::softgpu
