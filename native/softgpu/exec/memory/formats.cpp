// Conversions between memory formats and registers.
#include "softgpu/exec/memory/formats.hpp"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

// The numbers' names list channels from the most significant one: 2_10_10_10 has x in its low ten bits.
constexpr DataFormat k_formats[16] = {
    {},                        {1, {8, 0, 0, 0}},      {2, {16, 0, 0, 0}},     {2, {8, 8, 0, 0}},
    {4, {32, 0, 0, 0}},        {4, {16, 16, 0, 0}},    {4, {11, 11, 10, 0}},   {4, {10, 11, 11, 0}},
    {4, {2, 10, 10, 10}},      {4, {10, 10, 10, 2}},   {4, {8, 8, 8, 8}},      {8, {32, 32, 0, 0}},
    {8, {16, 16, 16, 16}},     {12, {32, 32, 32, 0}},  {16, {32, 32, 32, 32}}, {},
};

[[nodiscard]] bool is_integer(NumberFormat number) noexcept {
  return number == NumberFormat::uint || number == NumberFormat::sint;
}
[[nodiscard]] std::int32_t sign_extend(std::uint32_t raw, unsigned bits) noexcept {
  return static_cast<std::int32_t>(raw << (32 - bits)) >> (32 - bits);
}
[[nodiscard]] std::uint32_t as_bits(float value) noexcept { return std::bit_cast<std::uint32_t>(value); }
[[nodiscard]] float as_float(std::uint32_t bits) noexcept { return std::bit_cast<float>(bits); }

// The 10- and 11-bit floats are half floats without a sign and with a shorter fraction.
[[nodiscard]] float unpack_float(std::uint32_t raw, unsigned bits) noexcept {
  if (bits == 32) return as_float(raw);
  const std::uint32_t half = bits == 16 ? raw : raw << (15 - bits);
  return _cvtsh_ss(static_cast<unsigned short>(half));
}
[[nodiscard]] std::uint32_t pack_float(float value, unsigned bits) noexcept {
  if (bits == 32) return as_bits(value);
  if (bits == 16) return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
  if (value < 0) value = 0;  // no sign bit; NaN stays
  return static_cast<std::uint32_t>(_cvtss_sh(value, _MM_FROUND_TO_ZERO) & 0x7FFF) >> (15 - bits);
}

[[nodiscard]] std::uint32_t unpack_channel(std::uint32_t raw, unsigned bits, NumberFormat number) noexcept {
  const auto unsigned_max = static_cast<float>((std::uint64_t{1} << bits) - 1);
  const auto signed_max = static_cast<float>((std::uint64_t{1} << (bits - 1)) - 1);
  const auto as_signed = static_cast<float>(sign_extend(raw, bits));
  switch (number) {
    case NumberFormat::unorm: return as_bits(static_cast<float>(raw) / unsigned_max);
    case NumberFormat::snorm: return as_bits(std::max(as_signed / signed_max, -1.0F));
    case NumberFormat::uscaled: return as_bits(static_cast<float>(raw));
    case NumberFormat::sscaled: return as_bits(as_signed);
    case NumberFormat::sint: return static_cast<std::uint32_t>(sign_extend(raw, bits));
    case NumberFormat::floating: return as_bits(unpack_float(raw, bits));
    default: return raw;
  }
}

[[nodiscard]] std::uint32_t pack_channel(std::uint32_t value, unsigned bits, NumberFormat number) noexcept {
  const auto unsigned_max = static_cast<float>((std::uint64_t{1} << bits) - 1);
  const auto signed_max = static_cast<float>((std::uint64_t{1} << (bits - 1)) - 1);
  float x = as_float(value);
  if (!is_integer(number) && number != NumberFormat::floating && std::isnan(x)) x = 0;
  const auto to_signed = [](float y) { return static_cast<std::uint32_t>(static_cast<std::int32_t>(std::nearbyint(y))); };
  switch (number) {
    case NumberFormat::unorm: return to_signed(std::clamp(x, 0.0F, 1.0F) * unsigned_max);
    case NumberFormat::snorm: return to_signed(std::clamp(x, -1.0F, 1.0F) * signed_max);
    case NumberFormat::uscaled: return to_signed(std::trunc(std::clamp(x, 0.0F, unsigned_max)));
    case NumberFormat::sscaled: return to_signed(std::trunc(std::clamp(x, -signed_max - 1, signed_max)));
    case NumberFormat::floating: return pack_float(x, bits);
    default: return value;
  }
}

}  // namespace

DataFormat data_format(unsigned number) noexcept { return k_formats[number & 15]; }

bool is_valid(const DataFormat& data, NumberFormat number) noexcept {
  if (data.size_bytes == 0 || number == NumberFormat::reserved) return false;
  return std::all_of(data.bits, data.bits + 4, [&](unsigned bits) {
    if (bits == 0 || is_integer(number)) return true;
    return number == NumberFormat::floating ? bits >= 10 : bits <= 16;
  });
}

std::array<std::uint32_t, 4> unpack(const std::byte* from, const DataFormat& data, NumberFormat number) noexcept {
  std::array<std::uint32_t, 4> values{0, 0, 0, is_integer(number) ? 1U : as_bits(1.0F)};
  unsigned at = 0;
  for (unsigned i = 0; i < 4 && data.bits[i] != 0; ++i) {
    const unsigned bits = data.bits[i];
    // A channel never crosses the dword that it starts in.
    std::uint32_t word = 0;
    std::memcpy(&word, from + at / 32 * 4, std::min<std::size_t>(4, data.size_bytes));
    const std::uint32_t raw = (word >> (at % 32)) & static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1);
    values[i] = unpack_channel(raw, bits, number);
    at += bits;
  }
  return values;
}

void pack(std::byte* to, const std::array<std::uint32_t, 4>& values, const DataFormat& data, NumberFormat number) noexcept {
  std::uint32_t words[4] = {0, 0, 0, 0};
  unsigned at = 0;
  for (unsigned i = 0; i < 4 && data.bits[i] != 0; ++i) {
    const unsigned bits = data.bits[i];
    const std::uint32_t raw = pack_channel(values[i], bits, number) & static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1);
    words[at / 32] |= raw << (at % 32);
    at += bits;
  }
  std::memcpy(to, words, data.size_bytes);
}

std::uint32_t narrow_to_d16(std::uint32_t value, NumberFormat number) noexcept {
  if (is_integer(number)) return value & 0xFFFF;
  return _cvtss_sh(as_float(value), _MM_FROUND_TO_NEAREST_INT);
}

std::uint32_t widen_from_d16(std::uint32_t half, NumberFormat number) noexcept {
  if (number == NumberFormat::sint) return static_cast<std::uint32_t>(sign_extend(half, 16));
  if (number == NumberFormat::uint) return half;
  return as_bits(_cvtsh_ss(static_cast<unsigned short>(half)));
}

}  // namespace kerncap::softgpu
