// Byte arithmetic of video codecs: sums of absolute differences, averages, and packing to bytes.
#include <cstdint>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

[[nodiscard]] constexpr u32 difference(u32 a, u32 b) noexcept { return a > b ? a - b : b - a; }
[[nodiscard]] constexpr u32 byte(u64 value, unsigned i) noexcept { return static_cast<u32>(value >> (8 * i)) & 0xFF; }

[[nodiscard]] constexpr u32 sum_of_differences(u32 a, u32 b, u32 sum) noexcept {
  for (unsigned i = 0; i < 4; ++i) sum += difference(byte(a, i), byte(b, i));
  return sum;
}
// Bytes of the reference that are zero do not count.
[[nodiscard]] constexpr u32 masked_sum(u32 a, u32 reference, u32 sum) noexcept {
  for (unsigned i = 0; i < 4; ++i) sum += byte(reference, i) == 0 ? 0 : difference(byte(a, i), byte(reference, i));
  return sum;
}

constexpr auto k_sad_u8 = [](u32 a, u32 b, u32 c) { return sum_of_differences(a, b, c); };
constexpr auto k_sad_hi_u8 = [](u32 a, u32 b, u32 c) { return (sum_of_differences(a, b, 0) << 16) + c; };
constexpr auto k_sad_u16 = [](u32 a, u32 b, u32 c) {
  return c + difference(a & 0xFFFF, b & 0xFFFF) + difference(a >> 16, b >> 16);
};
constexpr auto k_sad_u32 = [](u32 a, u32 b, u32 c) { return difference(a, b) + c; };
constexpr auto k_msad_u8 = [](u32 a, u32 b, u32 c) { return masked_sum(a, b, c); };

// Four sums over a window that slides by one byte, each added to its 16-bit field.
constexpr auto k_qsad = [](u64 a, u32 b, u64 c) {
  u64 result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const u32 sum = sum_of_differences(static_cast<u32>(a >> (8 * i)), b, static_cast<u32>(c >> (16 * i)) & 0xFFFF);
    result |= u64{sum & 0xFFFF} << (16 * i);
  }
  return result;
};
constexpr auto k_mqsad = [](u64 a, u32 b, u64 c) {
  u64 result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const u32 sum = masked_sum(static_cast<u32>(a >> (8 * i)), b, static_cast<u32>(c >> (16 * i)) & 0xFFFF);
    result |= u64{sum & 0xFFFF} << (16 * i);
  }
  return result;
};

// v_mqsad_u32_u8: the same with four 32-bit sums, in four registers.
Flow mqsad_u32(WaveContext& wave, const Instruction& instruction) noexcept {
  const Row* window = wave.source_row(instruction, 0);
  const Row* reference = wave.source_row(instruction, 1);
  const Row* sums = wave.source_row(instruction, 2);
  Row result[4];
  for (unsigned lane = 0; lane < k_lanes; ++lane) {
    const u64 bytes = (u64{window[1].lane[lane]} << 32) | window[0].lane[lane];
    for (unsigned i = 0; i < 4; ++i) {
      result[i].lane[lane] = masked_sum(static_cast<u32>(bytes >> (8 * i)), reference->lane[lane], sums[i].lane[lane]);
    }
  }
  commit_plain(wave, instruction, result, 4);
  return Flow::next;
}
// A scalar or constant third source would have to fill four registers.
Handler make_mqsad_u32(Target target, Instruction& instruction) {
  const bool wide = instruction.src[2].kind == OperandKind::vgpr;
  return wide && is_plain(instruction) && form_is_supported(target, instruction) ? mqsad_u32 : nullptr;
}

constexpr auto k_lerp = [](u32 a, u32 b, u32 rounding) {
  u32 result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    result |= (((byte(a, i) + byte(b, i) + (byte(rounding, i) & 1)) >> 1) & 0xFF) << (8 * i);
  }
  return result;
};

}  // namespace

void register_media(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_sad_u8", lanewise<k_sad_u8>},
      {"v_sad_hi_u8", lanewise<k_sad_hi_u8>},
      {"v_sad_u16", lanewise<k_sad_u16>},
      {"v_sad_u32", lanewise<k_sad_u32>},
      {"v_msad_u8", lanewise<k_msad_u8>},
      {"v_qsad_pk_u16_u8", lanewise<k_qsad>},
      {"v_mqsad_pk_u16_u8", lanewise<k_mqsad>},
      {"v_mqsad_u32_u8", make_mqsad_u32},
      {"v_lerp_u8", lanewise<k_lerp>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
