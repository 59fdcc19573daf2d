// Scalar bit fields, bit counts and searches.
#include <bit>

#include "softgpu/exec/scalar/ops.hpp"

namespace kerncap::softgpu::scalar {
namespace {

using u32 = std::uint32_t;
using i32 = std::int32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;

template <typename T>
inline constexpr u32 k_bits = 8 * sizeof(T);

template <typename T>
[[nodiscard]] constexpr T low_mask(u32 width) noexcept {
  return width >= k_bits<T> ? ~T{0} : (T{1} << width) - 1;
}

// `field`: offset in the low bits, width in bits 16..22.
template <typename T>
[[nodiscard]] constexpr T extract(T value, u32 field) noexcept {
  return (value >> (field & (k_bits<T> - 1))) & low_mask<T>((field >> 16) & 0x7F);
}

constexpr auto k_bfe_u = [](auto value, u32 field) { return nonzero(extract(value, field)); };
template <typename T>
constexpr auto k_bfe_i = [](T value, u32 field) {
  const u32 width = (field >> 16) & 0x7F;
  const T shifted = static_cast<T>(static_cast<std::make_signed_t<T>>(value) >> (field & (k_bits<T> - 1)));
  if (width == 0 || width >= k_bits<T>) return nonzero(width == 0 ? T{0} : shifted);
  const T sign = T{1} << (width - 1);
  return nonzero(((shifted & low_mask<T>(width)) ^ sign) - sign);
};
constexpr auto k_bfm_b32 = [](u32 width, u32 offset) { return low_mask<u32>(width & 31) << (offset & 31); };
constexpr auto k_bfm_b64 = [](u32 width, u32 offset) { return low_mask<u64>(width & 63) << (offset & 63); };

template <typename T>
[[nodiscard]] constexpr T reverse(T value) noexcept {
  T result = 0;
  for (u32 i = 0; i < k_bits<T>; ++i) result |= ((value >> i) & 1) << (k_bits<T> - 1 - i);
  return result;
}

constexpr auto k_reverse = [](auto a) { return reverse(a); };
constexpr auto k_count0 = [](auto a) { return nonzero(static_cast<u32>(std::popcount(~a))); };
constexpr auto k_count1 = [](auto a) { return nonzero(static_cast<u32>(std::popcount(a))); };
// Searches answer -1 when there is no such bit.
constexpr auto k_first0 = [](auto a) { return ~a == 0 ? ~0U : static_cast<u32>(std::countr_one(a)); };
constexpr auto k_first1 = [](auto a) { return a == 0 ? ~0U : static_cast<u32>(std::countr_zero(a)); };
constexpr auto k_leading = [](auto a) { return a == 0 ? ~0U : static_cast<u32>(std::countl_zero(a)); };
// Leading bits equal to the sign.
template <typename T>
constexpr auto k_leading_sign = [](T a) {
  const T flipped = (a >> (k_bits<T> - 1)) != 0 ? static_cast<T>(~a) : a;
  return flipped == 0 ? ~0U : static_cast<u32>(std::countl_zero(flipped));
};
constexpr auto k_sext_i8 = [](u32 a) { return static_cast<u32>(static_cast<i32>(static_cast<std::int8_t>(a))); };
constexpr auto k_sext_i16 = [](u32 a) { return static_cast<u32>(static_cast<i32>(static_cast<std::int16_t>(a))); };

template <typename T>
[[nodiscard]] constexpr T any_of_quad(T value) noexcept {  // bit 4i: some bit of quad i is set
  const T pairs = value | value >> 1;
  return (pairs | pairs >> 2) & static_cast<T>(0x1111111111111111);
}
template <typename T>
constexpr auto k_whole_quad = [](T a) { return nonzero(static_cast<T>(any_of_quad(a) * 15)); };
template <typename T>
constexpr auto k_quad_mask = [](T a) {
  T result = 0;
  for (u32 i = 0; i < k_bits<T> / 4; ++i) result |= (any_of_quad(a) >> (4 * i) & 1) << i;
  return nonzero(result);
};
constexpr auto k_replicate = [](u32 a) {
  u64 result = 0;
  for (u32 i = 0; i < 32; ++i) result |= u64{(a >> i) & 1} * 3 << (2 * i);
  return result;
};

template <typename T, bool k_set>
Flow set_bit(WaveContext& wave, const Instruction& instruction) noexcept {
  const T bit = T{1} << (read<u32>(wave, instruction.src[0]) & (k_bits<T> - 1));
  const T before = read<T>(wave, instruction.dst);
  write(wave, instruction.dst, k_set ? before | bit : before & ~bit);
  return Flow::next;
}

constexpr HandlerEntry k_entries[] = {
    {"s_bfe_u32", always<binary<u32, u32, k_bfe_u>>},
    {"s_bfe_u64", always<binary<u64, u32, k_bfe_u>>},
    {"s_bfe_i32", always<binary<u32, u32, k_bfe_i<u32>>>},
    {"s_bfe_i64", always<binary<u64, u32, k_bfe_i<u64>>>},
    {"s_bfm_b32", always<binary<u32, u32, k_bfm_b32>>},
    {"s_bfm_b64", always<binary<u32, u32, k_bfm_b64>>},
    {"s_brev_b32", always<unary<u32, k_reverse>>},
    {"s_brev_b64", always<unary<u64, k_reverse>>},
    {"s_bcnt0_i32_b32", always<unary<u32, k_count0>>},
    {"s_bcnt0_i32_b64", always<unary<u64, k_count0>>},
    {"s_bcnt1_i32_b32", always<unary<u32, k_count1>>},
    {"s_bcnt1_i32_b64", always<unary<u64, k_count1>>},
    {"s_ff0_i32_b32", always<unary<u32, k_first0>>},
    {"s_ff0_i32_b64", always<unary<u64, k_first0>>},
    {"s_ff1_i32_b32", always<unary<u32, k_first1>>},
    {"s_ff1_i32_b64", always<unary<u64, k_first1>>},
    {"s_flbit_i32_b32", always<unary<u32, k_leading>>},
    {"s_flbit_i32_b64", always<unary<u64, k_leading>>},
    {"s_flbit_i32", always<unary<u32, k_leading_sign<u32>>>},
    {"s_flbit_i32_i64", always<unary<u64, k_leading_sign<u64>>>},
    {"s_sext_i32_i8", always<unary<u32, k_sext_i8>>},
    {"s_sext_i32_i16", always<unary<u32, k_sext_i16>>},
    {"s_bitset0_b32", always<set_bit<u32, false>>},
    {"s_bitset0_b64", always<set_bit<u64, false>>},
    {"s_bitset1_b32", always<set_bit<u32, true>>},
    {"s_bitset1_b64", always<set_bit<u64, true>>},
    {"s_wqm_b32", always<unary<u32, k_whole_quad<u32>>>},
    {"s_wqm_b64", always<unary<u64, k_whole_quad<u64>>>},
    {"s_quadmask_b32", always<unary<u32, k_quad_mask<u32>>>},
    {"s_quadmask_b64", always<unary<u64, k_quad_mask<u64>>>},
    {"s_bitreplicate_b64_b32", always<unary<u32, k_replicate>>},
};

}  // namespace

void register_bits(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu::scalar
