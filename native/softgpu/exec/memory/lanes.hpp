// The addresses of one memory instruction, lane by lane, and what a single range check needs to know about them.
#pragma once

#include <bit>
#include <cstdint>

#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

// Lane i accesses base + (offset[i] + add), the sum in brackets modulo 2^32; only the lanes in `mask` do. Nearly every
// address form comes down to this: a scalar base and a 32-bit vector offset as they are, 64-bit vector addresses in
// groups of lanes with the same high half, LDS with base 0.
struct LaneOffsets {
  std::uint64_t base = 0;
  const Row* offset = nullptr;
  std::uint32_t add = 0;
  std::uint64_t mask = 0;  // not 0

  [[nodiscard]] std::uint32_t low(unsigned lane) const noexcept { return offset->lane[lane] + add; }
  [[nodiscard]] std::uint64_t address(unsigned lane) const noexcept { return base + low(lane); }
};

// The lowest and highest offset of the lanes that take part, and whether lane i is at lane 0 + i * size.
struct Span {
  std::uint32_t low = 0, high = 0;
  bool contiguous = false;

  [[nodiscard]] std::uint64_t bytes(unsigned size_bytes) const noexcept {
    return std::uint64_t{high} - low + size_bytes;
  }
};

[[nodiscard]] inline unsigned first_lane(std::uint64_t mask) noexcept {
  return static_cast<unsigned>(std::countr_zero(mask));
}
[[nodiscard]] inline unsigned last_lane(std::uint64_t mask) noexcept {
  return 63U - static_cast<unsigned>(std::countl_zero(mask));
}

// Calls visit(lane) for the lanes in mask, in rising order: where lanes collide, the highest one writes last.
template <class Visit>
inline void for_each_lane(std::uint64_t mask, Visit&& visit) noexcept {
  for (; mask != 0; mask &= mask - 1) visit(first_lane(mask));
}

// All ones in the lanes of `mask`: the wave's own row for EXEC, else one made in the worker's last scratch row.
[[nodiscard]] const Row& mask_row(WaveContext& wave, std::uint64_t mask) noexcept;

[[nodiscard]] Span span_of(WaveContext& wave, const LaneOffsets& lanes, unsigned size_bytes) noexcept;

// The lanes of `mask` whose value in `row` is `value`.
[[nodiscard]] std::uint64_t lanes_equal(const Row& row, std::uint32_t value, std::uint64_t mask) noexcept;

// A row of zeros: the offsets of a uniform address.
extern const Row k_zero_row;

// Rows of WorkerState::scratch that this folder uses; 0..7 belong to the operands. They live for one instruction.
enum ScratchRow : unsigned {
  k_bounce_rows = 8,    // four rows: 16 bytes a lane for accesses that no single range check covers
  k_offset_row = 12,    // offsets made by the instruction
  k_address_copy = 13,  // the address register, when the destination overlaps it
  k_mask_scratch = 15,
};

}  // namespace kerncap::softgpu
