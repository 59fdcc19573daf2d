// Instructions with a lane mask going in or coming out besides their registers: carries, v_cndmask, 64-bit multiply-add.
#include <cstdint>

#include "softgpu/exec/vector/compare.hpp"
#include "softgpu/exec/vector/families.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;
using i32 = std::int32_t;

enum class Carry { add, sub, subrev };

// result and a flag byte for each lane; carry_in is 1 or 0.
template <Carry k_kind, bool k_carry_in>
[[gnu::noinline]] u64 carry_lanes(const u32* a, const u32* b, const Row& carry_in, u32* result) noexcept {
  Lanes<std::uint8_t> flags;
#pragma GCC ivdep
  for (unsigned i = 0; i < k_lanes; ++i) {
    const u32 x = k_kind == Carry::subrev ? b[i] : a[i], y = k_kind == Carry::subrev ? a[i] : b[i];
    const u32 in = k_carry_in ? carry_in.lane[i] & 1 : 0;
    if constexpr (k_kind == Carry::add) {
      const u32 partial = x + y, sum = partial + in;
      flags.lane[i] = partial < x || sum < partial ? 0xFF : 0;
      result[i] = sum;
    } else {
      flags.lane[i] = x < y || (in != 0 && x == y) ? 0xFF : 0;
      result[i] = x - y - in;
    }
  }
  return gather_mask(flags);
}

[[nodiscard]] u64 lane_mask(const WaveContext& wave, const Operand& operand) noexcept {
  return k_lanes == 64 ? wave.scalar64(operand) : wave.scalar32(operand);
}

template <Carry k_kind, bool k_carry_in, bool k_plain>
Flow carry_handler(WaveContext& wave, const Instruction& instruction) noexcept {
  Row carry_in;
  if constexpr (k_carry_in) expand_mask(lane_mask(wave, instruction.src[2]), carry_in);
  Lanes<u32> buffers[2];
  const u32* a = load_source<u32, k_plain>(wave, instruction, 0, buffers[0]);
  const u32* b = load_source<u32, k_plain>(wave, instruction, 1, buffers[1]);
  Row result;
  const u64 mask = carry_lanes<k_kind, k_carry_in>(a, b, carry_in, result.lane);
  if constexpr (k_plain) {
    commit_plain(wave, instruction, &result, 1);
  } else {
    if (instruction.clamp) {  // saturates where it carries
      constexpr u32 k_end = k_kind == Carry::add ? ~0U : 0U;
      for (unsigned i = 0; i < k_lanes; ++i) result.lane[i] = ((mask >> i) & 1) != 0 ? k_end : result.lane[i];
    }
    commit_modified(wave, instruction, &result, 1, false, HighHalf::clear);
  }
  write_lane_mask(wave, instruction.sdst.index, mask & (k_plain ? active_lanes(wave) : write_mask(wave, instruction)));
  return Flow::next;
}

template <Carry k_kind, bool k_carry_in>
Handler carry(Target target, Instruction& instruction) {
  if (!form_is_supported(target, instruction)) return nullptr;
  return is_plain(instruction) ? carry_handler<k_kind, k_carry_in, true> : carry_handler<k_kind, k_carry_in, false>;
}

// The second source where the mask is set. neg and abs apply, as to floats.
template <bool k_plain>
Flow select(WaveContext& wave, const Instruction& instruction) noexcept {
  Row mask;
  expand_mask(lane_mask(wave, instruction.src[2]), mask);
  Lanes<u32> buffers[2];
  const u32* a = load_source<float, k_plain>(wave, instruction, 0, buffers[0]);
  const u32* b = load_source<float, k_plain>(wave, instruction, 1, buffers[1]);
  Row result;
  for (unsigned i = 0; i < k_lanes; ++i) result.lane[i] = (a[i] & ~mask.lane[i]) | (b[i] & mask.lane[i]);
  if constexpr (k_plain) {
    commit_plain(wave, instruction, &result, 1);
  } else {
    commit_modified(wave, instruction, &result, 1, false, HighHalf::clear);
  }
  return Flow::next;
}
Handler make_select(Target target, Instruction& instruction) {
  if (!form_is_supported(target, instruction)) return nullptr;
  return is_plain(instruction) ? select<true> : select<false>;
}

// 32 x 32 + 64 bits; the scalar result is the carry out of 64 bits (signed: the 65th bit of the sum).
template <bool k_signed>
Flow multiply_add(WaveContext& wave, const Instruction& instruction) noexcept {
  Lanes<u32> buffers[2];
  Lanes<u64> addend_buffer, result;
  const u32* a = load_source<u32, true>(wave, instruction, 0, buffers[0]);
  const u32* b = load_source<u32, true>(wave, instruction, 1, buffers[1]);
  const u64* addend = load_source<u64, true>(wave, instruction, 2, addend_buffer);
  Lanes<std::uint8_t> flags;
  for (unsigned i = 0; i < k_lanes; ++i) {
    if constexpr (k_signed) {
      const i64 product = static_cast<i64>(static_cast<i32>(a[i])) * static_cast<i32>(b[i]);
      result.lane[i] = static_cast<u64>(product) + addend[i];
      const u64 carried = (result.lane[i] < addend[i] ? 1U : 0U);
      flags.lane[i] = ((static_cast<u64>(product) >> 63) ^ (addend[i] >> 63) ^ carried) != 0 ? 0xFF : 0;
    } else {
      result.lane[i] = u64{a[i]} * b[i] + addend[i];
      flags.lane[i] = result.lane[i] < addend[i] ? 0xFF : 0;
    }
  }
  store_result<u64, true, HighHalf::clear>(wave, instruction, result);
  write_lane_mask(wave, instruction.sdst.index, gather_mask(flags) & active_lanes(wave));
  return Flow::next;
}
template <bool k_signed>
Handler make_multiply_add(Target target, Instruction& instruction) {
  return form_is_supported(target, instruction) && is_plain(instruction) ? multiply_add<k_signed> : nullptr;
}

}  // namespace

void register_carry(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_add_co_u32", carry<Carry::add, false>},
      {"v_sub_co_u32", carry<Carry::sub, false>},
      {"v_subrev_co_u32", carry<Carry::subrev, false>},
      {"v_addc_co_u32", carry<Carry::add, true>},
      {"v_subb_co_u32", carry<Carry::sub, true>},
      {"v_subbrev_co_u32", carry<Carry::subrev, true>},
      {"v_cndmask_b32", make_select},
      {"v_mad_u64_u32", make_multiply_add<false>},
      {"v_mad_i64_i32", make_multiply_add<true>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
