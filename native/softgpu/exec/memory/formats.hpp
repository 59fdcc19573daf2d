// Typed buffer elements: up to four channels of a data format, read as a number format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

enum class NumberFormat : std::uint8_t { unorm, snorm, uscaled, sscaled, uint, sint, reserved, floating };

struct DataFormat {
  std::uint8_t size_bytes = 0;  // 0: no such format
  std::uint8_t bits[4] = {0, 0, 0, 0};  // x first, from the least significant bit
};

// By the four-bit number in descriptors and MTBUF instructions.
[[nodiscard]] DataFormat data_format(unsigned number) noexcept;
// Whether channels of this many bits can be read as that: floats have 10, 11, 16 or 32 bits, the scaled and normalised
// formats at most 16.
[[nodiscard]] bool is_valid(const DataFormat& data, NumberFormat number) noexcept;

// 32-bit register contents; channels that the format lacks are 0, and 1 for the fourth.
[[nodiscard]] std::array<std::uint32_t, 4> unpack(const std::byte* from, const DataFormat& data, NumberFormat number) noexcept;
// Writes data.size_bytes; values beyond the format's range are clamped, integers cut off.
void pack(std::byte* to, const std::array<std::uint32_t, 4>& values, const DataFormat& data, NumberFormat number) noexcept;

// Between the 32-bit register contents of a channel and the 16-bit ones of the d16 opcodes.
[[nodiscard]] std::uint32_t narrow_to_d16(std::uint32_t value, NumberFormat number) noexcept;
[[nodiscard]] std::uint32_t widen_from_d16(std::uint32_t half, NumberFormat number) noexcept;

}  // namespace kerncap::softgpu
