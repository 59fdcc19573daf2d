// How instructions of gfx9 are encoded, for tests that make random ones of a given opcode.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "softgpu/isa/opcode.hpp"

namespace kerncap::softgpu::testing {

// The first word of an encoding: what is fixed, where the opcode's number is, what operands and modifiers may take.
struct Encoding {
  Format format;
  std::uint32_t base;
  unsigned shift;
  std::uint32_t operands;
};
inline constexpr Encoding k_encodings[] = {
    {Format::sop1, 0xBE800000, 8, 0x007F00FF},    {Format::sop2, 0x80000000, 23, 0x007FFFFF},
    {Format::sopc, 0xBF000000, 16, 0x0000FFFF},   {Format::sopk, 0xB0000000, 23, 0x007FFFFF},
    {Format::sopp, 0xBF800000, 16, 0x0000FFFF},   {Format::smem, 0xC0000000, 18, 0x0003FFFF},
    {Format::vop1, 0x7E000000, 9, 0x01FE01FF},    {Format::vop2, 0x00000000, 25, 0x01FFFFFF},
    {Format::vopc, 0x7C000000, 17, 0x0001FFFF},   {Format::vop3, 0xD0000000, 16, 0x0000FFFF},
    {Format::vop3sd, 0xD0000000, 16, 0x0000FFFF}, {Format::vop3p, 0xD3800000, 16, 0x0000FFFF},
    {Format::mfma, 0xD3800000, 16, 0x0000FFFF},   {Format::ds, 0xD8000000, 17, 0x0201FFFF},
    {Format::flat, 0xDC000000, 18, 0x02030FFF},   {Format::scratch, 0xDC004000, 18, 0x02033FFF},
    {Format::global, 0xDC008000, 18, 0x02031FFF}, {Format::mubuf, 0xE0000000, 18, 0x0003FFFF},
    {Format::mtbuf, 0xE8000000, 15, 0x03F87FFF},  {Format::mimg, 0xF0000000, 18, 0x0003FFFF},
};

[[nodiscard]] inline const Encoding& encoding_of(Format format) {
  return *std::ranges::find(k_encodings, format, &Encoding::format);
}

}  // namespace kerncap::softgpu::testing
