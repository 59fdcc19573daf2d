// Which of the paths through scratch memory an access takes, and the byte-wise one.
#include "softgpu/exec/memory/scratch_access.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

constexpr std::string_view k_beyond = "beyond the work-item's scratch memory";

[[nodiscard]] std::uint64_t swizzle(std::uint64_t base, std::uint32_t offset, unsigned lane, std::uint32_t row_bytes) noexcept {
  return base + std::uint64_t{offset / 4} * row_bytes + lane * 4 + offset % 4;
}

template <Rights k_wanted, AccessKind k_access, class CopyByte>
bool bytewise(WaveContext& wave, const Instruction& in, const ScratchLanes& scratch, unsigned size_bytes,
              CopyByte&& copy_byte) noexcept {
  const std::uint32_t row_bytes = k_lanes * 4U;
  Translation& memory = wave.worker->memory;
  const bool is_recorded = is_scratch_recorded(wave, scratch);
  for (std::uint64_t rest = scratch.lanes.mask; rest != 0; rest &= rest - 1) {
    const unsigned lane = first_lane(rest);
    for (unsigned i = 0; i < size_bytes; ++i) {
      const std::uint64_t va = swizzle(scratch.lanes.base, scratch.lanes.low(lane) + i, lane, row_bytes);
      std::byte* host = memory.host(va, 1, k_wanted);
      if (host == nullptr) {
        stop_at(wave, in, va, lane, k_access, size_bytes);
        return false;
      }
      if (is_recorded) [[unlikely]] {
        if constexpr (k_access == AccessKind::write) memory.note_write(va, 1);
        else memory.note_read(va, 1);
      }
      copy_byte(host, bounce_place(wave)(lane) + i);
    }
  }
  return true;
}

// Where each lane's dword of a row lies.
constexpr Row k_lane_dwords = [] {
  Row row{};
  for (unsigned i = 0; i < k_lanes; ++i) row.lane[i] = 4 * i;
  return row;
}();

}  // namespace

void note_uniform(WaveContext& wave, std::uint64_t va, std::uint64_t mask, unsigned rows, unsigned piece_bytes,
                  bool is_write) noexcept {
  for (unsigned i = 0; i < rows; ++i) {
    note_access(wave, {va + std::uint64_t{i} * k_lanes * 4U, &k_lane_dwords, 0, mask}, piece_bytes, is_write);
  }
}

ScratchPlan plan_scratch(WaveContext& wave, const Instruction& in, const ScratchLanes& scratch, unsigned size_bytes,
                         AccessKind access) noexcept {
  const LaneOffsets& lanes = scratch.lanes;
  const std::uint32_t row_bytes = k_lanes * 4U;
  ScratchPlan plan{ScratchShape::misaligned, row_bytes, 0, {}};
  // k_zero_row stands for "no vector address".
  const bool is_scalar = lanes.offset == &k_zero_row;
  const Span span = is_scalar ? Span{lanes.add, lanes.add, false} : span_of(wave, lanes, size_bytes);
  if (std::uint64_t{span.high} + size_bytes > scratch.limit_bytes) [[unlikely]] {
    unsigned culprit = first_lane(lanes.mask);
    for (std::uint64_t rest = lanes.mask; rest != 0; rest &= rest - 1) {
      culprit = first_lane(rest);
      if (std::uint64_t{lanes.low(culprit)} + size_bytes > scratch.limit_bytes) break;
    }
    const std::uint64_t va = swizzle(lanes.base, lanes.low(culprit), culprit, row_bytes);
    wave.stop(in, FaultKind::unmapped_address, va, culprit, access, size_bytes, k_beyond);
    plan.shape = ScratchShape::refused;
    return plan;
  }
  const unsigned piece = size_bytes < 4 ? size_bytes : 4;
  if (span.low == span.high) {
    plan.offset = span.low;
    if (span.low % 4 + piece <= 4) plan.shape = ScratchShape::uniform;
    return plan;
  }
  // Swizzled offsets are 32-bit numbers; no target allows a lane so much scratch memory that they would not fit.
  if (scratch.limit_bytes > (1U << 25)) return plan;
  Row& swizzled = wave.worker->scratch[k_offset_row];
  const Row& active = mask_row(wave, lanes.mask);
  std::uint32_t crosses = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    const std::uint32_t offset = lanes.offset->lane[i] + lanes.add;
    crosses |= (offset & (piece - 1)) & active.lane[i];
    swizzled.lane[i] = (offset >> 2) * row_bytes + i * 4 + (offset & 3);
  }
  if (crosses != 0) return plan;
  plan.shape = ScratchShape::swizzled;
  plan.lanes = {lanes.base, &swizzled, 0, lanes.mask};
  return plan;
}

bool fetch_misaligned(WaveContext& wave, const Instruction& in, const ScratchLanes& scratch, unsigned size_bytes) noexcept {
  return bytewise<Rights::read, AccessKind::read>(wave, in, scratch, size_bytes,
                                                  [](const std::byte* host, std::byte* bounce) { *bounce = *host; });
}

bool put_misaligned(WaveContext& wave, const Instruction& in, const ScratchLanes& scratch, unsigned size_bytes) noexcept {
  return bytewise<Rights::write, AccessKind::write>(wave, in, scratch, size_bytes,
                                                    [](std::byte* host, const std::byte* bounce) { *host = *bounce; });
}

}  // namespace kerncap::softgpu
