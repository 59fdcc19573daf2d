// VOP3P on pairs of f16 and 16-bit integers.
#include <cstdint>
#include <limits>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/float_bits.hpp"
#include "softgpu/exec/vector/half.hpp"
#include "softgpu/exec/vector/packed.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using u16 = std::uint16_t;
using i16 = std::int16_t;

template <class T>
[[nodiscard]] constexpr T saturated(std::int64_t value) noexcept {
  constexpr std::int64_t k_most = std::numeric_limits<T>::max(), k_least = std::numeric_limits<T>::min();
  return static_cast<T>(value > k_most ? k_most : (value < k_least ? k_least : value));
}
template <class T>
struct On {
  static constexpr auto k_add = [](T a, T b) { return static_cast<T>(a + b); };
  static constexpr auto k_add_saturated = [](T a, T b) { return saturated<T>(a + b); };
  static constexpr auto k_sub = [](T a, T b) { return static_cast<T>(a - b); };
  static constexpr auto k_sub_saturated = [](T a, T b) { return saturated<T>(a - b); };
  static constexpr auto k_mad = [](T a, T b, T c) {
    return static_cast<T>(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b) + static_cast<std::uint32_t>(c));
  };
  static constexpr auto k_mad_saturated = [](T a, T b, T c) { return saturated<T>(std::int64_t{a} * b + c); };
  static constexpr auto k_min = [](T a, T b) { return a < b ? a : b; };
  static constexpr auto k_max = [](T a, T b) { return a > b ? a : b; };
};
constexpr auto k_mul = [](u16 a, u16 b) { return static_cast<u16>(std::uint32_t{a} * b); };
constexpr auto k_mul_saturated = [](u16 a, u16 b) { return saturated<u16>(std::int64_t{a} * b); };

constexpr auto k_fma = [](Half a, Half b, Half c) -> Half { return {fused_half(a.value, b.value, c.value)}; };
template <NanRule k_rule>
constexpr auto k_min_half = [](OrderedHalf a, OrderedHalf b) -> OrderedHalf { return {minimum<k_rule>(a.value, b.value)}; };
template <NanRule k_rule>
constexpr auto k_max_half = [](OrderedHalf a, OrderedHalf b) -> OrderedHalf { return {maximum<k_rule>(a.value, b.value)}; };

template <auto k_ieee, auto k_quiet>
Flow ordered(WaveContext& wave, const Instruction& instruction) noexcept {
  return (wave.mode & k_mode_ieee) != 0 ? packed_handler<k_ieee>(wave, instruction)
                                        : packed_handler<k_quiet>(wave, instruction);
}
template <auto k_ieee, auto k_quiet>
Handler make_ordered(Target target, Instruction& instruction) {
  return form_is_supported(target, instruction) ? ordered<k_ieee, k_quiet> : nullptr;
}

// v_pk_fmac_f16 is VOP2 and has no selectors: each half works on its own.
Handler make_fmac(Target target, Instruction& instruction) {
  if (!is_plain(instruction) || !form_is_supported(target, instruction)) return nullptr;
  instruction.op_sel_hi = 7;
  return packed_handler<k_fma>;
}

}  // namespace

void register_packed16(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_pk_add_i16", packed<On<i16>::k_add, On<i16>::k_add_saturated>},
      {"v_pk_add_u16", packed<On<u16>::k_add, On<u16>::k_add_saturated>},
      {"v_pk_sub_i16", packed<On<i16>::k_sub, On<i16>::k_sub_saturated>},
      {"v_pk_sub_u16", packed<On<u16>::k_sub, On<u16>::k_sub_saturated>},
      {"v_pk_mad_i16", packed<On<i16>::k_mad, On<i16>::k_mad_saturated>},
      {"v_pk_mad_u16", packed<On<u16>::k_mad, On<u16>::k_mad_saturated>},
      {"v_pk_mul_lo_u16", packed<k_mul, k_mul_saturated>},
      {"v_pk_min_i16", packed<On<i16>::k_min>},
      {"v_pk_min_u16", packed<On<u16>::k_min>},
      {"v_pk_max_i16", packed<On<i16>::k_max>},
      {"v_pk_max_u16", packed<On<u16>::k_max>},
      {"v_pk_lshlrev_b16", packed<[](u16 a, u16 b) { return static_cast<u16>(b << (a & 15)); }>},
      {"v_pk_lshrrev_b16", packed<[](u16 a, u16 b) { return static_cast<u16>(b >> (a & 15)); }>},
      {"v_pk_ashrrev_i16", packed<[](u16 a, i16 b) { return static_cast<i16>(b >> (a & 15)); }>},
      {"v_pk_add_f16", packed<[](Half a, Half b) -> Half { return {a.value + b.value}; }>},
      {"v_pk_mul_f16", packed<[](Half a, Half b) -> Half { return {a.value * b.value}; }>},
      {"v_pk_fma_f16", packed<k_fma>},
      {"v_pk_fmac_f16", make_fmac},
      {"v_pk_min_f16", make_ordered<k_min_half<NanRule::ieee>, k_min_half<NanRule::quiet>>},
      {"v_pk_max_f16", make_ordered<k_max_half<NanRule::ieee>, k_max_half<NanRule::quiet>>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
