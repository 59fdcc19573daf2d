// Bit operations: moves, logic, shifts, fields, counts, byte permutations; and 64-bit integers, of which there are few.
#include <bit>
#include <cstdint>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using u32 = std::uint32_t;
using i32 = std::int32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;

constexpr auto k_reverse = [](u32 a) {
  a = ((a >> 1) & 0x55555555U) | ((a & 0x55555555U) << 1);
  a = ((a >> 2) & 0x33333333U) | ((a & 0x33333333U) << 2);
  a = ((a >> 4) & 0x0F0F0F0FU) | ((a & 0x0F0F0F0FU) << 4);
  return __builtin_bswap32(a);
};
constexpr auto k_first_high = [](u32 a) { return a == 0 ? -1 : std::countl_zero(a); };
constexpr auto k_first_low = [](u32 a) { return a == 0 ? -1 : std::countr_zero(a); };
// The first bit, from the top, that differs from the sign.
constexpr auto k_first_sign = [](i32 a) {
  const auto differing = static_cast<u32>(a ^ (a >> 31));
  return differing == 0 ? -1 : std::countl_zero(differing);
};

constexpr auto k_extract = [](u32 a, u32 offset, u32 width) {
  return (a >> (offset & 31)) & ((1U << (width & 31)) - 1);
};
constexpr auto k_extract_signed = [](i32 a, u32 offset, u32 width) {
  const u32 bits = width & 31;
  const u32 field = static_cast<u32>(a >> (offset & 31)) & ((1U << bits) - 1);
  const u32 sign = (1U << bits) >> 1;
  return (field ^ sign) - sign;
};

constexpr auto k_align_bit = [](u32 high, u32 low, u32 shift) {
  return static_cast<u32>(((u64{high} << 32) | low) >> (shift & 31));
};
constexpr auto k_align_byte = [](u32 high, u32 low, u32 shift) {
  return static_cast<u32>(((u64{high} << 32) | low) >> (8 * (shift & 3)));
};

// Selector bytes: 0..7 that byte of {a, b} (b is the low half), 8..11 the sign of byte 1, 3, 5, 7, 12 zero, above: ones.
constexpr auto k_permute = [](u32 a, u32 b, u32 selectors) {
  u32 result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const u32 select = (selectors >> (8 * i)) & 0xFF;
    const u32 byte = (((select & 4) != 0 ? a : b) >> (8 * (select & 3))) & 0xFF;
    const u32 sign_word = ((select & 2) != 0 ? a : b) << ((select & 1) != 0 ? 0 : 16);
    const u32 sign = static_cast<u32>(static_cast<i32>(sign_word) >> 31) & 0xFF;
    u32 value = select < 8 ? byte : sign;
    value = select == 12 ? 0 : value;
    value = select > 12 ? 0xFF : value;
    result |= value << (8 * i);
  }
  return result;
};

}  // namespace

void register_bits(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_mov_b32", lanewise<[](u32 a) { return a; }>},
      {"v_mov_b64", lanewise<[](u64 a) { return a; }>},
      {"v_not_b32", lanewise<[](u32 a) { return ~a; }>},
      {"v_and_b32", lanewise<[](u32 a, u32 b) { return a & b; }>},
      {"v_or_b32", lanewise<[](u32 a, u32 b) { return a | b; }>},
      {"v_xor_b32", lanewise<[](u32 a, u32 b) { return a ^ b; }>},
      {"v_xnor_b32", lanewise<[](u32 a, u32 b) { return ~(a ^ b); }>},
      {"v_and_or_b32", lanewise<[](u32 a, u32 b, u32 c) { return (a & b) | c; }>},
      {"v_or3_b32", lanewise<[](u32 a, u32 b, u32 c) { return a | b | c; }>},
      {"v_lshl_or_b32", lanewise<[](u32 a, u32 b, u32 c) { return (a << (b & 31)) | c; }>},
      {"v_lshlrev_b32", lanewise<[](u32 a, u32 b) { return b << (a & 31); }>},
      {"v_lshrrev_b32", lanewise<[](u32 a, u32 b) { return (b >> (a & 31)); }>},
      {"v_ashrrev_i32", lanewise<[](u32 a, i32 b) { return (b >> (a & 31)); }>},
      {"v_lshlrev_b64", lanewise<[](u32 a, u64 b) { return b << (a & 63); }>},
      {"v_lshrrev_b64", lanewise<[](u32 a, u64 b) { return (b >> (a & 63)); }>},
      {"v_ashrrev_i64", lanewise<[](u32 a, i64 b) { return (b >> (a & 63)); }>},
      // The shift is three bits wide.
      {"v_lshl_add_u64", lanewise<[](u64 a, u32 b, u64 c) { return (a << (b & 7)) + c; }>},
      {"v_bfrev_b32", lanewise<k_reverse>},
      {"v_ffbh_u32", lanewise<k_first_high>},
      {"v_ffbl_b32", lanewise<k_first_low>},
      {"v_ffbh_i32", lanewise<k_first_sign>},
      {"v_bfe_u32", lanewise<k_extract>},
      {"v_bfe_i32", lanewise<k_extract_signed>},
      {"v_bfi_b32", lanewise<[](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); }>},
      {"v_bfm_b32", lanewise<[](u32 a, u32 b) { return ((1U << (a & 31)) - 1) << (b & 31); }>},
      {"v_bcnt_u32_b32", lanewise<[](u32 a, u32 b) { return static_cast<u32>(std::popcount(a)) + b; }>},
      {"v_alignbit_b32", lanewise<k_align_bit>},
      {"v_alignbyte_b32", lanewise<k_align_byte>},
      {"v_perm_b32", lanewise<k_permute>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
