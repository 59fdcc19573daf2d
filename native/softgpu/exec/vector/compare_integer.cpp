// v_cmp and v_cmpx of 16-, 32- and 64-bit integers. Three loops a type: the other conditions are their opposites.
#include <cstdint>

#include "softgpu/exec/vector/compare.hpp"
#include "softgpu/exec/vector/families.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

template <class T>
struct On {
  static constexpr auto k_never = [](T, T) { return false; };
  static constexpr auto k_less = [](T a, T b) { return a < b; };
  static constexpr auto k_equal = [](T a, T b) { return a == b; };
  static constexpr auto k_greater = [](T a, T b) { return a > b; };
};

template <class T>
void add_conditions(HandlerTable& table, std::span<const std::string_view, 16> names) {
  using C = On<T>;
  const HandlerEntry entries[] = {
      {names[0], compare<C::k_never, false, false>},  {names[1], compare<C::k_less, false, false>},
      {names[2], compare<C::k_equal, false, false>},  {names[3], compare<C::k_greater, true, false>},
      {names[4], compare<C::k_greater, false, false>}, {names[5], compare<C::k_equal, true, false>},
      {names[6], compare<C::k_less, true, false>},    {names[7], compare<C::k_never, true, false>},
      {names[8], compare<C::k_never, false, true>},   {names[9], compare<C::k_less, false, true>},
      {names[10], compare<C::k_equal, false, true>},  {names[11], compare<C::k_greater, true, true>},
      {names[12], compare<C::k_greater, false, true>}, {names[13], compare<C::k_equal, true, true>},
      {names[14], compare<C::k_less, true, true>},    {names[15], compare<C::k_never, true, true>},
  };
  table.add(entries);
}

#define KERNCAP_CONDITIONS(prefix, type)                                                                          \
  prefix "f_" type, prefix "lt_" type, prefix "eq_" type, prefix "le_" type, prefix "gt_" type, prefix "ne_" type, \
      prefix "ge_" type, prefix "t_" type
#define KERNCAP_NAMES(type) {KERNCAP_CONDITIONS("v_cmp_", type), KERNCAP_CONDITIONS("v_cmpx_", type)}

}  // namespace

void register_compare_integer(HandlerTable& table) {
  static constexpr std::string_view k_i16[16] = KERNCAP_NAMES("i16");
  static constexpr std::string_view k_u16[16] = KERNCAP_NAMES("u16");
  static constexpr std::string_view k_i32[16] = KERNCAP_NAMES("i32");
  static constexpr std::string_view k_u32[16] = KERNCAP_NAMES("u32");
  static constexpr std::string_view k_i64[16] = KERNCAP_NAMES("i64");
  static constexpr std::string_view k_u64[16] = KERNCAP_NAMES("u64");
  add_conditions<std::int16_t>(table, k_i16);
  add_conditions<std::uint16_t>(table, k_u16);
  add_conditions<std::int32_t>(table, k_i32);
  add_conditions<std::uint32_t>(table, k_u32);
  add_conditions<std::int64_t>(table, k_i64);
  add_conditions<std::uint64_t>(table, k_u64);
}

#undef KERNCAP_CONDITIONS
#undef KERNCAP_NAMES

}  // namespace kerncap::softgpu
