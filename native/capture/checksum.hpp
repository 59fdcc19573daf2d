// CRC-32 as zlib's: names a code object where its SHA-256 is not needed. A profile tells by it which of Triton's kernels of
// one name a dispatch was of: the recorder in the program's Python knows the same number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kerncap::capture {

// Larger code objects have none: they are libraries', and reading them would cost the program time.
inline constexpr std::size_t k_most_checked_bytes = 1 << 20;

[[nodiscard]] constexpr std::array<std::uint32_t, 256> make_crc_table() noexcept {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1) != 0 ? value >> 1 ^ 0xEDB88320u : value >> 1;
    table[byte] = value;
  }
  return table;
}

// 0 for none.
[[nodiscard]] inline std::uint32_t checksum(std::span<const std::byte> data) noexcept {
  static constexpr auto k_table = make_crc_table();
  if (data.empty() || data.size() > k_most_checked_bytes) return 0;
  std::uint32_t value = ~0u;
  for (const std::byte byte : data) value = k_table[(value ^ static_cast<std::uint32_t>(byte)) & 0xFFu] ^ value >> 8;
  return ~value;
}

}  // namespace kerncap::capture
