// v_cmp and v_cmpx of f16, f32 and f64: sixteen conditions of which eight are the opposites of the others, and class.
#include <cstdint>

#include "softgpu/exec/vector/compare.hpp"
#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/float_bits.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

[[nodiscard]] inline float number(Half a) noexcept { return a.value; }
[[nodiscard]] inline float number(float a) noexcept { return a; }
[[nodiscard]] inline double number(double a) noexcept { return a; }

template <class T>
struct On {
  static constexpr auto k_never = [](T, T) { return false; };
  static constexpr auto k_less = [](T a, T b) { return number(a) < number(b); };
  static constexpr auto k_equal = [](T a, T b) { return number(a) == number(b); };
  static constexpr auto k_less_equal = [](T a, T b) { return number(a) <= number(b); };
  static constexpr auto k_greater = [](T a, T b) { return number(a) > number(b); };
  static constexpr auto k_less_greater = [](T a, T b) { return number(a) < number(b) || number(a) > number(b); };
  static constexpr auto k_greater_equal = [](T a, T b) { return number(a) >= number(b); };
  static constexpr auto k_ordered = [](T a, T b) { return number(a) == number(a) && number(b) == number(b); };
};

// The classes that bits 0 to 9 of the second source ask for: signaling NaN, quiet NaN, -infinity, -normal, -denormal,
// -0, +0, +denormal, +normal, +infinity.
template <class Bits>
[[nodiscard]] inline unsigned class_of(Bits bits, unsigned mantissa, unsigned width) noexcept {
  const Bits sign = static_cast<Bits>(bits >> (width - 1)) & 1;
  const auto magnitude = static_cast<Bits>(bits & static_cast<Bits>((Bits{1} << (width - 1)) - 1));
  const auto infinity = static_cast<Bits>(((Bits{1} << (width - 1 - mantissa)) - 1) << mantissa);
  const Bits quiet = Bits{1} << (mantissa - 1);
  unsigned positive = magnitude == 0 ? 6 : (magnitude < (Bits{1} << mantissa) ? 7 : (magnitude < infinity ? 8 : 9));
  positive = sign != 0 ? 11 - positive : positive;
  return magnitude > infinity ? ((magnitude & quiet) != 0 ? 1 : 0) : positive;
}
// neg and abs apply, so the sources are floating-point; the bits decide, not the value, so nothing is flushed.
constexpr auto k_class32 = [](float a, std::uint32_t mask) {
  return ((mask >> class_of<std::uint32_t>(bits_of(a), 23, 32)) & 1) != 0;
};
constexpr auto k_class64 = [](double a, std::uint32_t mask) {
  return ((mask >> class_of<std::uint64_t>(bits_of(a), 52, 64)) & 1) != 0;
};

// Half is kept as a float, which cannot tell a denormal half or a signaling one: this one reads the register.
template <bool k_exec>
Flow class16(WaveContext& wave, const Instruction& instruction) noexcept {
  Lanes<std::uint16_t> value_buffer;
  Lanes<std::uint32_t> mask_buffer;
  const std::uint16_t* values = load_source<std::uint16_t, false>(wave, instruction, 0, value_buffer);
  const std::uint32_t* masks = load_source<std::uint32_t, false>(wave, instruction, 1, mask_buffer);
  const bool abs = (instruction.abs & 1) != 0, neg = (instruction.neg & 1) != 0;
  std::uint64_t result = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    std::uint32_t bits = values[i];
    bits = abs ? bits & 0x7FFF : bits;
    bits = neg ? bits ^ 0x8000 : bits;
    result |= static_cast<std::uint64_t>((masks[i] >> class_of<std::uint32_t>(bits, 10, 16)) & 1) << i;
  }
  result &= write_mask(wave, instruction);
  if (!k_exec || !traits(wave.target).compares_to_exec_alone) write_lane_mask(wave, instruction.dst.index, result);
  if constexpr (k_exec) wave.set_exec(result);
  return Flow::next;
}

template <class T>
void add_conditions(HandlerTable& table, std::span<const std::string_view, 32> names) {
  using C = On<T>;
  const HandlerEntry entries[] = {
      {names[0], compare<C::k_never, false, false>},         {names[1], compare<C::k_less, false, false>},
      {names[2], compare<C::k_equal, false, false>},         {names[3], compare<C::k_less_equal, false, false>},
      {names[4], compare<C::k_greater, false, false>},       {names[5], compare<C::k_less_greater, false, false>},
      {names[6], compare<C::k_greater_equal, false, false>}, {names[7], compare<C::k_ordered, false, false>},
      {names[8], compare<C::k_ordered, true, false>},        {names[9], compare<C::k_greater_equal, true, false>},
      {names[10], compare<C::k_less_greater, true, false>},  {names[11], compare<C::k_greater, true, false>},
      {names[12], compare<C::k_less_equal, true, false>},    {names[13], compare<C::k_equal, true, false>},
      {names[14], compare<C::k_less, true, false>},          {names[15], compare<C::k_never, true, false>},
      {names[16], compare<C::k_never, false, true>},         {names[17], compare<C::k_less, false, true>},
      {names[18], compare<C::k_equal, false, true>},         {names[19], compare<C::k_less_equal, false, true>},
      {names[20], compare<C::k_greater, false, true>},       {names[21], compare<C::k_less_greater, false, true>},
      {names[22], compare<C::k_greater_equal, false, true>}, {names[23], compare<C::k_ordered, false, true>},
      {names[24], compare<C::k_ordered, true, true>},        {names[25], compare<C::k_greater_equal, true, true>},
      {names[26], compare<C::k_less_greater, true, true>},   {names[27], compare<C::k_greater, true, true>},
      {names[28], compare<C::k_less_equal, true, true>},     {names[29], compare<C::k_equal, true, true>},
      {names[30], compare<C::k_less, true, true>},           {names[31], compare<C::k_never, true, true>},
  };
  table.add(entries);
}

#define KERNCAP_CONDITIONS(prefix, type)                                                                          \
  prefix "f_" type, prefix "lt_" type, prefix "eq_" type, prefix "le_" type, prefix "gt_" type, prefix "lg_" type, \
      prefix "ge_" type, prefix "o_" type, prefix "u_" type, prefix "nge_" type, prefix "nlg_" type,              \
      prefix "ngt_" type, prefix "nle_" type, prefix "neq_" type, prefix "nlt_" type, prefix "tru_" type
#define KERNCAP_NAMES(type) {KERNCAP_CONDITIONS("v_cmp_", type), KERNCAP_CONDITIONS("v_cmpx_", type)}

}  // namespace

void register_compare_float(HandlerTable& table) {
  static constexpr std::string_view k_f16[32] = KERNCAP_NAMES("f16");
  static constexpr std::string_view k_f32[32] = KERNCAP_NAMES("f32");
  static constexpr std::string_view k_f64[32] = KERNCAP_NAMES("f64");
  add_conditions<Half>(table, k_f16);
  add_conditions<float>(table, k_f32);
  add_conditions<double>(table, k_f64);
  static constexpr HandlerEntry k_class[] = {
      {"v_cmp_class_f32", compare<k_class32, false, false>},  {"v_cmpx_class_f32", compare<k_class32, false, true>},
      {"v_cmp_class_f64", compare<k_class64, false, false>},  {"v_cmpx_class_f64", compare<k_class64, false, true>},
      {"v_cmp_class_f16", always<class16<false>>},            {"v_cmpx_class_f16", always<class16<true>>},
  };
  table.add(k_class);
}

#undef KERNCAP_CONDITIONS
#undef KERNCAP_NAMES

}  // namespace kerncap::softgpu
