// Integer DS atomics.
#include "softgpu/exec/memory/lds_atomic.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using U32 = std::uint32_t;
using U64 = std::uint64_t;

// Two exchanges in a row; offsets count elements or blocks of 64. The old values fill consecutive registers.
template <class T, unsigned k_scale>
Flow exchange2(WaveContext& wave, const Instruction& in) noexcept {
  if (active_lanes(wave) == 0) return Flow::next;
  constexpr unsigned k_unit = sizeof(T) * k_scale;
  LaneOffsets lanes = lds_lanes_apart(wave, in, static_cast<std::uint32_t>(in.offset) * k_unit);
  // The second operand may be among the registers that the first old value overwrites.
  constexpr unsigned k_rows = sizeof(T) / 4;
  Row* second = &wave.worker->scratch[k_bounce_rows];
  std::copy_n(wave.source_row(in, 2), k_rows, second);
  Row* to = wave.destination_row(in.dst);
  const Flow flow = atomic_lds<atomic::Swap<T>>(wave, in, lanes, {wave.source_row(in, 1), nullptr, to});
  if (flow != Flow::next) return flow;
  lanes.add = in.offset1 * k_unit;
  return atomic_lds<atomic::Swap<T>>(wave, in, lanes, {second, nullptr, to + k_rows});
}

// Two dwords at an 8-byte boundary, each replaced when bit 31 of its operand is set, by the operand's other bits.
Flow conditional_exchange(WaveContext& wave, const Instruction& in) noexcept {
  struct Exchange : atomic::OneOperand<U64> {
    static U64 next(U64 old, U64 a, U64) noexcept {
      const auto half = [](U32 was, U32 operand) { return (operand >> 31) != 0 ? operand & 0x7FFFFFFF : was; };
      const U64 low = half(static_cast<U32>(old), static_cast<U32>(a));
      return low | (U64{half(static_cast<U32>(old >> 32), static_cast<U32>(a >> 32))} << 32);
    }
  };
  if (active_lanes(wave) == 0) return Flow::next;
  Row& address = wave.worker->scratch[k_offset_row];
  const Row& from = wave.vgpr[in.src[0].index];
  for (unsigned i = 0; i < k_lanes; ++i) {
    address.lane[i] = (from.lane[i] + static_cast<std::uint32_t>(in.offset)) & 0xFFF8;
  }
  return atomic_lds<Exchange>(wave, in, {0, &address, 0, active_lanes(wave)}, lds_operands<Exchange>(wave, in));
}

// {name, type} for both forms of one operation.
#define KERNCAP_LDS_ATOMIC(name, type, ...)                    \
  {"ds_" name "_" type, lds_only<lds_atomic<__VA_ARGS__>>},    \
  {"ds_" name "_rtn_" type, lds_only<lds_atomic<__VA_ARGS__>>}

#define KERNCAP_LDS_ATOMICS(bits, T)                           \
  KERNCAP_LDS_ATOMIC("add", "u" bits, atomic::Add<T>),         \
  KERNCAP_LDS_ATOMIC("sub", "u" bits, atomic::Sub<T>),         \
  KERNCAP_LDS_ATOMIC("rsub", "u" bits, atomic::ReverseSub<T>), \
  KERNCAP_LDS_ATOMIC("inc", "u" bits, atomic::Inc<T>),         \
  KERNCAP_LDS_ATOMIC("dec", "u" bits, atomic::Dec<T>),         \
  KERNCAP_LDS_ATOMIC("min", "i" bits, atomic::SMin<T>),        \
  KERNCAP_LDS_ATOMIC("max", "i" bits, atomic::SMax<T>),        \
  KERNCAP_LDS_ATOMIC("min", "u" bits, atomic::UMin<T>),        \
  KERNCAP_LDS_ATOMIC("max", "u" bits, atomic::UMax<T>),        \
  KERNCAP_LDS_ATOMIC("and", "b" bits, atomic::And<T>),         \
  KERNCAP_LDS_ATOMIC("or", "b" bits, atomic::Or<T>),           \
  KERNCAP_LDS_ATOMIC("xor", "b" bits, atomic::Xor<T>),         \
  KERNCAP_LDS_ATOMIC("mskor", "b" bits, atomic::MaskOr<T>),    \
  KERNCAP_LDS_ATOMIC("cmpst", "b" bits, atomic::CompareStore<T>), \
  {"ds_wrxchg_rtn_b" bits, lds_only<lds_atomic<atomic::Swap<T>>>}, \
  {"ds_wrxchg2_rtn_b" bits, lds_only<exchange2<T, 1>>},        \
  {"ds_wrxchg2st64_rtn_b" bits, lds_only<exchange2<T, 64>>}

constexpr HandlerEntry k_entries[] = {
    KERNCAP_LDS_ATOMICS("32", U32),
    KERNCAP_LDS_ATOMICS("64", U64),
    {"ds_wrap_rtn_b32", lds_only<lds_atomic<atomic::Wrap<U32>>>},
    {"ds_condxchg32_rtn_b64", lds_only<conditional_exchange>},
};

}  // namespace

void register_lds_integer_atomics(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu
