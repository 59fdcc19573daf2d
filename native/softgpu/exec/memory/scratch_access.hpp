// Scratch memory: per-lane storage in which consecutive dwords of one lane lie a row (one dword of every lane) apart.
//
//   address of byte b of lane l = base + (b / 4) * 4 * lanes + l * 4 + b % 4
//
// So a stack slot, at the same offset in every lane, is one contiguous row; that is the fast path.
#pragma once

#include "softgpu/exec/memory/access.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

// lanes.base: the address of byte 0 of lane 0. Offsets are bytes within the lane's storage.
struct ScratchLanes {
  LaneOffsets lanes;
  std::uint32_t limit_bytes;  // of one lane's storage
};

enum class ScratchShape : std::uint8_t {
  uniform,    // one offset in all lanes, no element crosses a dword that it does not fill
  swizzled,   // different offsets; `lanes` then holds addresses of whole dwords or parts of one
  misaligned, // dwords that straddle rows: byte by byte
  refused,    // beyond the storage: wave.fault is set
};

struct ScratchPlan {
  ScratchShape shape;
  std::uint32_t row_bytes;
  std::uint32_t offset;  // uniform
  LaneOffsets lanes;     // swizzled
};

[[nodiscard]] ScratchPlan plan_scratch(WaveContext& wave, const Instruction& in, const ScratchLanes& scratch,
                                       unsigned size_bytes, AccessKind access) noexcept;
[[nodiscard]] bool fetch_misaligned(WaveContext& wave, const Instruction& in, const ScratchLanes& scratch,
                                    unsigned size_bytes) noexcept;
[[nodiscard]] bool put_misaligned(WaveContext& wave, const Instruction& in, const ScratchLanes& scratch,
                                  unsigned size_bytes) noexcept;

// Whether accesses have to be noted for whoever records them. A wave's own scratch memory is no captured memory. But where
// its address is in registers, a program may set them to any address.
[[nodiscard]] inline bool is_scratch_recorded(const WaveContext& wave, const ScratchLanes& scratch) noexcept {
  if (!wave.worker->memory.is_recorded()) return false;
  const std::uint64_t own_bytes = std::uint64_t{wave.scratch_size_bytes_per_lane} * k_lanes;
  const std::uint64_t begin = scratch.lanes.base - wave.scratch_base;  // wraps around below it
  return begin > own_bytes || std::uint64_t{scratch.limit_bytes} * k_lanes > own_bytes - begin;
}
// Notes accesses to `rows` rows; va: where lane 0 has its piece of the first row.
void note_uniform(WaveContext& wave, std::uint64_t va, std::uint64_t mask, unsigned rows, unsigned piece_bytes,
                  bool is_write) noexcept;

// The piece of an Element that lies within one dword, and their number.
template <class Element>
struct ScratchPiece {
  using type = Element;
};
template <unsigned k_count>
struct ScratchPiece<Dwords<k_count>> {
  using type = Dwords<1>;
};

template <class Element>
[[gnu::noinline]] Flow load_scratch(WaveContext& wave, const Instruction& in, const ScratchLanes& scratch, Row* to) noexcept {
  using Piece = typename ScratchPiece<Element>::type;
  ScratchPlan plan = plan_scratch(wave, in, scratch, Element::k_size, AccessKind::read);
  const std::uint64_t mask = scratch.lanes.mask;
  if (plan.shape == ScratchShape::uniform) [[likely]] {
    const std::uint64_t va = scratch.lanes.base + std::uint64_t{plan.offset / 4} * plan.row_bytes;
    const std::byte* host = wave.worker->memory.host(va, std::uint64_t{plan.row_bytes} * Element::k_rows, Rights::read);
    if (host != nullptr) [[likely]] {
      if (is_scratch_recorded(wave, scratch)) [[unlikely]] {
        note_uniform(wave, va + plan.offset % 4, mask, Element::k_rows, Piece::k_size, false);
      }
      const auto at = reinterpret_cast<std::uintptr_t>(host);
      if constexpr (Piece::k_size == 4) {
        for (unsigned i = 0; i < Element::k_rows; ++i) read_row(at + std::uintptr_t{i} * plan.row_bytes, mask, to[i]);
      } else {
        read_lanes<Piece>(Strided<4>{at + plan.offset % 4}, mask, to);
      }
      return Flow::next;
    }
  }
  if (plan.shape == ScratchShape::refused) return Flow::fault;
  if (plan.shape == ScratchShape::swizzled) {
    for (unsigned i = 0; i < Element::k_rows; ++i, plan.lanes.base += plan.row_bytes) {
      if (load_memory<Piece>(wave, in, plan.lanes, to + i) != Flow::next) return Flow::fault;
    }
    return Flow::next;
  }
  if (!fetch_misaligned(wave, in, scratch, Element::k_size)) return Flow::fault;
  read_lanes<Element>(bounce_place(wave), mask, to);
  return Flow::next;
}

template <class Element>
[[gnu::noinline]] Flow store_scratch(WaveContext& wave, const Instruction& in, const ScratchLanes& scratch, const Row* from) noexcept {
  using Piece = typename ScratchPiece<Element>::type;
  ScratchPlan plan = plan_scratch(wave, in, scratch, Element::k_size, AccessKind::write);
  const std::uint64_t mask = scratch.lanes.mask;
  if (plan.shape == ScratchShape::uniform) [[likely]] {
    const std::uint64_t va = scratch.lanes.base + std::uint64_t{plan.offset / 4} * plan.row_bytes;
    std::byte* host = wave.worker->memory.host(va, std::uint64_t{plan.row_bytes} * Element::k_rows, Rights::write);
    if (host != nullptr) [[likely]] {
      if (is_scratch_recorded(wave, scratch)) [[unlikely]] {
        note_uniform(wave, va + plan.offset % 4, mask, Element::k_rows, Piece::k_size, true);
      }
      const auto at = reinterpret_cast<std::uintptr_t>(host);
      if constexpr (Piece::k_size == 4) {
        for (unsigned i = 0; i < Element::k_rows; ++i) write_row(at + std::uintptr_t{i} * plan.row_bytes, mask, from[i]);
      } else {
        write_lanes<Piece>(Strided<4>{at + plan.offset % 4}, mask, from);
      }
      return Flow::next;
    }
  }
  if (plan.shape == ScratchShape::refused) return Flow::fault;
  if (plan.shape == ScratchShape::swizzled) {
    for (unsigned i = 0; i < Element::k_rows; ++i, plan.lanes.base += plan.row_bytes) {
      if (store_memory<Piece>(wave, in, plan.lanes, from + i) != Flow::next) return Flow::fault;
    }
    return Flow::next;
  }
  write_lanes<Element>(bounce_place(wave), mask, from);
  return put_misaligned(wave, in, scratch, Element::k_size) ? Flow::next : Flow::fault;
}

// This wave's own scratch memory, as scratch instructions and flat accesses to the private aperture see it.
[[nodiscard]] inline std::uint64_t own_scratch_base(const WaveContext& wave) noexcept {
  // Programs hold it in flat_scratch, or cannot see it.
  return traits(wave.target).has_architected_scratch ? wave.scratch_base : wave.sgpr64(k_flat_scratch);
}

}  // namespace kerncap::softgpu
