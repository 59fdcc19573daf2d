// Addresses of MUBUF and MTBUF instructions: a 128-bit descriptor in scalar registers, an index, offsets, a range check.
//
//   bits   0..47   base address                    bits  96..107  four destination selects of 3 bits
//         48..61   stride in bytes                      108..110  number format
//         63       swizzle enable                       111..114  data format; stride[14..17] with add_tid
//         64..95   num_records                          117..118  index stride: 8, 16, 32, 64
//                                                       119       add the lane number to the index
//
//   linear:    buffer_offset = index * stride + offset
//   swizzled:  buffer_offset = ((index / index_stride) * stride + offset / 4 * 4) * index_stride
//                              + (index % index_stride) * 4 + offset % 4
//   address  = base + soffset + buffer_offset
//
// Out of range: buffer_offset + size > num_records - soffset, or, for a swizzled buffer with a stride, index >=
// num_records. Loads then give 0, stores and atomics do nothing. Each dword of a wide access is checked by itself.
#pragma once

#include "softgpu/exec/memory/scratch_access.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

struct BufferDescriptor {
  std::uint64_t base;
  std::uint32_t stride, record_count, index_stride;
  bool is_swizzled, adds_lane;
  std::uint8_t select[4], number_format, data_format;
};
[[nodiscard]] BufferDescriptor read_descriptor(const WaveContext& wave, const Instruction& in) noexcept;

// The parts that one instruction adds to its descriptor.
struct BufferAddress {
  BufferDescriptor buffer;
  std::uint32_t scalar_offset, constant_offset;
  const Row* index;   // null: none
  const Row* offset;  // k_zero_row: none

  struct Place {
    std::uint64_t va;
    bool in_range;
  };
  // The place of `size_bytes` at byte `at` of the lane's element.
  [[nodiscard]] Place place(unsigned lane, unsigned at, unsigned size_bytes) const noexcept;
  // Bytes from the base address plus scalar offset to the end of the buffer.
  [[nodiscard]] std::uint64_t limit() const noexcept {
    return buffer.record_count > scalar_offset ? buffer.record_count - scalar_offset : 0;
  }
};
[[nodiscard]] BufferAddress buffer_address(const WaveContext& wave, const Instruction& in) noexcept;

enum class BufferShape : std::uint8_t {
  linear,   // `lanes`: those in range; the other active lanes are out of range with all of their element
  scratch,  // gfx90a's stack: the swizzled buffer that is this wave's scratch memory
  general,  // place by place
};
struct BufferPlan {
  BufferShape shape;
  LaneOffsets lanes;
  ScratchLanes scratch;
};
[[nodiscard]] BufferPlan plan_buffer(WaveContext& wave, const BufferAddress& address, unsigned size_bytes) noexcept;

// The general way, through the bounce rows. `whole`: an element is in range or out of range as one. False: wave.fault is set.
[[nodiscard]] bool fetch_buffer(WaveContext& wave, const Instruction& in, const BufferAddress& address,
                                unsigned size_bytes, bool whole) noexcept;
[[nodiscard]] bool put_buffer(WaveContext& wave, const Instruction& in, const BufferAddress& address,
                              unsigned size_bytes, bool whole) noexcept;

// Atomics: visits the lanes in range, the others get 0 as the old value.
template <class Visit>
inline Flow for_each_buffer_group(WaveContext& wave, const Instruction& in, unsigned size_bytes, Row* old, Visit&& visit) noexcept {
  const std::uint64_t mask = active_lanes(wave);
  if (mask == 0) return Flow::next;
  const BufferAddress address = buffer_address(wave, in);
  const BufferPlan plan = plan_buffer(wave, address, size_bytes);
  const auto drop = [&](unsigned lane) {
    if (old == nullptr) return;
    for (unsigned i = 0; i < size_bytes / 4; ++i) old[i].lane[lane] = 0;
  };
  if (plan.shape == BufferShape::linear) {
    for_each_lane(mask & ~plan.lanes.mask, drop);
    return plan.lanes.mask != 0 ? visit(plan.lanes) : Flow::next;
  }
  for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1) {
    const unsigned lane = first_lane(rest);
    const BufferAddress::Place place = address.place(lane, 0, size_bytes);
    if (!place.in_range) {
      drop(lane);
    } else if (const Flow flow = visit(LaneOffsets{place.va, &k_zero_row, 0, rest & (0 - rest)}); flow != Flow::next) {
      return flow;
    }
  }
  return Flow::next;
}

}  // namespace kerncap::softgpu
