// Loads and stores of all lanes at once, through the page table, in the LDS or in scratch memory. One range check covers
// the wave whenever its addresses lie in one extent; else each lane is looked up by itself, each byte if need be.
#pragma once

#include "softgpu/exec/memory/transfer.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

// ---- the slow paths, in access.cpp

// Copies each lane's element to the bounce rows, 16 bytes a lane. False: wave.fault says which byte failed.
[[nodiscard]] bool fetch_apart(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes, unsigned size_bytes) noexcept;
[[nodiscard]] bool put_apart(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes, unsigned size_bytes) noexcept;

// The fault of an address that was refused: unmapped or forbidden.
Flow stop_at(WaveContext& wave, const Instruction& in, std::uint64_t va, unsigned lane, AccessKind access,
             unsigned size_bytes) noexcept;

// An access beyond the LDS: true goes on as hardware does, false has set wave.fault (see Dispatch::goes_on_beyond_lds).
[[nodiscard]] bool goes_on_beyond_lds(WaveContext& wave, const Instruction& in, std::uint32_t offset, unsigned lane, AccessKind access,
                                      unsigned size_bytes) noexcept;
// The same for all lanes that reach beyond it. `inside` gets the others; an element that lies there in part does not count.
[[nodiscard]] bool goes_on_beyond_lds(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes, AccessKind access,
                                      unsigned size_bytes, std::uint64_t& inside) noexcept;

// Notes each lane's access for whoever records them.
void note_access(WaveContext& wave, const LaneOffsets& lanes, unsigned size_bytes, bool is_write) noexcept;

[[nodiscard]] inline Strided<16> bounce_place(WaveContext& wave) noexcept {
  return {reinterpret_cast<std::uintptr_t>(&wave.worker->scratch[k_bounce_rows])};
}

// ---- one span of host memory; host is the address of offset span.low

template <class Element>
inline void read_span(const std::byte* host, const Span& span, const LaneOffsets& lanes, Row* to) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(host);
  if (span.contiguous) {
    const std::uintptr_t start = at - std::uintptr_t{first_lane(lanes.mask)} * Element::k_size;
    if constexpr (Element::k_size == 4) {
      read_row(start, lanes.mask, *to);
    } else {
      read_lanes<Element>(Strided<Element::k_size>{start}, lanes.mask, to);
    }
  } else {
    read_lanes<Element>(Scattered{at - span.low, lanes.offset, lanes.add}, lanes.mask, to);
  }
}

template <class Element>
inline void write_span(std::byte* host, const Span& span, const LaneOffsets& lanes, const Row* from) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(host);
  if (span.contiguous) {
    const std::uintptr_t start = at - std::uintptr_t{first_lane(lanes.mask)} * Element::k_size;
    if constexpr (Element::k_size == 4) {
      write_row(start, lanes.mask, *from);
    } else {
      write_lanes<Element>(Strided<Element::k_size>{start}, lanes.mask, from);
    }
  } else {
    write_lanes<Element>(Scattered{at - span.low, lanes.offset, lanes.add}, lanes.mask, from);
  }
}

// ---- GPU memory

template <class Element>
[[gnu::noinline]] Flow load_memory(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes, Row* to) noexcept {
  constexpr unsigned k_size = Element::k_size;
  const Span span = span_of(wave, lanes, k_size);
  if (wave.worker->memory.is_recorded()) [[unlikely]] note_access(wave, lanes, k_size, false);
  const std::byte* host = wave.worker->memory.host(lanes.base + span.low, span.bytes(k_size), Rights::read);
  if (host != nullptr) [[likely]] {
    read_span<Element>(host, span, lanes, to);
    return Flow::next;
  }
  if (!fetch_apart(wave, in, lanes, k_size)) return Flow::fault;
  read_lanes<Element>(bounce_place(wave), lanes.mask, to);
  return Flow::next;
}

template <class Element>
[[gnu::noinline]] Flow store_memory(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes, const Row* from) noexcept {
  constexpr unsigned k_size = Element::k_size;
  const Span span = span_of(wave, lanes, k_size);
  if (wave.worker->memory.is_recorded()) [[unlikely]] note_access(wave, lanes, k_size, true);
  std::byte* host = wave.worker->memory.host(lanes.base + span.low, span.bytes(k_size), Rights::write);
  if (host != nullptr) [[likely]] {
    write_span<Element>(host, span, lanes, from);
    return Flow::next;
  }
  write_lanes<Element>(bounce_place(wave), lanes.mask, from);
  return put_apart(wave, in, lanes, k_size) ? Flow::next : Flow::fault;
}

// ---- LDS; lanes.base is not used. Lanes beyond it read 0 and write nothing.

template <class Element>
[[gnu::noinline, gnu::cold]] Flow load_beyond_lds(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes, Row* to) noexcept;
template <class Element>
[[gnu::noinline, gnu::cold]] Flow store_beyond_lds(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes, const Row* from) noexcept;

template <class Element>
[[gnu::noinline]] Flow load_lds(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes, Row* to) noexcept {
  const Span span = span_of(wave, lanes, Element::k_size);
  if (std::uint64_t{span.high} + Element::k_size > wave.lds_size_bytes) [[unlikely]] {
    return load_beyond_lds<Element>(wave, in, lanes, to);
  }
  read_span<Element>(wave.lds + span.low, span, lanes, to);
  return Flow::next;
}

template <class Element>
[[gnu::noinline]] Flow store_lds(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes, const Row* from) noexcept {
  const Span span = span_of(wave, lanes, Element::k_size);
  if (std::uint64_t{span.high} + Element::k_size > wave.lds_size_bytes) [[unlikely]] {
    return store_beyond_lds<Element>(wave, in, lanes, from);
  }
  write_span<Element>(wave.lds + span.low, span, lanes, from);
  return Flow::next;
}

template <class Element>
Flow load_beyond_lds(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes, Row* to) noexcept {
  alignas(16) static constexpr std::byte k_zeros[Element::k_size]{};
  std::uint64_t inside = 0;
  if (!goes_on_beyond_lds(wave, in, lanes, AccessKind::read, Element::k_size, inside)) return Flow::fault;
  // The lanes inside first: the zeros of the others may fall on the address register.
  const Flow flow = inside != 0 ? load_lds<Element>(wave, in, {lanes.base, lanes.offset, lanes.add, inside}, to) : Flow::next;
  for_each_lane(lanes.mask & ~inside, [&](unsigned lane) { Element::load(k_zeros, to, lane); });
  return flow;
}

template <class Element>
Flow store_beyond_lds(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes, const Row* from) noexcept {
  std::uint64_t inside = 0;
  if (!goes_on_beyond_lds(wave, in, lanes, AccessKind::write, Element::k_size, inside)) return Flow::fault;
  return inside != 0 ? store_lds<Element>(wave, in, {lanes.base, lanes.offset, lanes.add, inside}, from) : Flow::next;
}

}  // namespace kerncap::softgpu
