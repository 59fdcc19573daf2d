// Accesses that no single range check covers: several extents, elements that straddle two, lanes beyond the LDS, and faults.
#include "softgpu/exec/memory/access.hpp"

#include "softgpu/exec/work_group.hpp"
#include "softgpu/memory/recorded_reads.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

// One move where the hardware makes one, so that no other thread sees half a value.
void copy(std::byte* to, const std::byte* from, unsigned size_bytes) noexcept {
  switch (size_bytes) {
    case 1: store_as(to, load_as<std::uint8_t>(from)); break;
    case 2: store_as(to, load_as<std::uint16_t>(from)); break;
    case 4: store_as(to, load_as<std::uint32_t>(from)); break;
    case 8: store_as(to, load_as<std::uint64_t>(from)); break;
    default:
      for (unsigned i = 0; i < size_bytes; i += 4) store_as(to + i, load_as<std::uint32_t>(from + i));
  }
}

// The first byte of the element without the right, or size_bytes.
unsigned first_refused(WaveContext& wave, std::uint64_t va, unsigned size_bytes, Rights wanted) noexcept {
  for (unsigned i = 0; i < size_bytes; ++i) {
    if (wave.worker->memory.host(va + i, 1, wanted) == nullptr) return i;
  }
  return size_bytes;
}

template <Rights k_wanted, AccessKind k_access, class CopyBytes>
bool apart(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes, unsigned size_bytes,
           CopyBytes&& copy_bytes) noexcept {
  Translation& memory = wave.worker->memory;
  for (std::uint64_t rest = lanes.mask; rest != 0; rest &= rest - 1) {
    const unsigned lane = first_lane(rest);
    const std::uint64_t va = lanes.address(lane);
    std::byte* bounce = bounce_place(wave)(lane);
    if (std::byte* host = memory.host(va, size_bytes, k_wanted)) {
      copy_bytes(host, bounce, size_bytes);
      continue;
    }
    const unsigned refused = first_refused(wave, va, size_bytes, k_wanted);
    if (refused != size_bytes) {
      stop_at(wave, in, va + refused, lane, k_access, size_bytes);
      return false;
    }
    for (unsigned i = 0; i < size_bytes; ++i) copy_bytes(memory.host(va + i, 1, k_wanted), bounce + i, 1);
  }
  return true;
}

}  // namespace

void note_access(WaveContext& wave, const LaneOffsets& lanes, unsigned size_bytes, bool is_write) noexcept {
  if (!is_write && !g_records_reads.load(std::memory_order_relaxed)) return;
  Translation& memory = wave.worker->memory;
  // Neighbouring lanes mostly come one behind the other: each run of them is noted at once.
  std::uint64_t begin = 0, end = 0;
  const auto note = [&] {
    if (begin == end) return;
    if (is_write) memory.note_write(begin, end - begin);
    else memory.note_read(begin, end - begin);
  };
  for_each_lane(lanes.mask, [&](unsigned lane) {
    const std::uint64_t va = lanes.address(lane);
    if (va != end) {
      if (va >= begin && va + size_bytes <= end) return;  // as in the lane before
      note();
      begin = va;
    }
    end = va + size_bytes;
  });
  note();
}

bool fetch_apart(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes, unsigned size_bytes) noexcept {
  return apart<Rights::read, AccessKind::read>(
      wave, in, lanes, size_bytes,
      [](const std::byte* host, std::byte* bounce, unsigned size) { copy(bounce, host, size); });
}

bool put_apart(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes, unsigned size_bytes) noexcept {
  return apart<Rights::write, AccessKind::write>(
      wave, in, lanes, size_bytes,
      [](std::byte* host, const std::byte* bounce, unsigned size) { copy(host, bounce, size); });
}

Flow stop_at(WaveContext& wave, const Instruction& in, std::uint64_t va, unsigned lane, AccessKind access,
             unsigned size_bytes) noexcept {
  const bool mapped = wave.worker->memory.rights(va) != Rights::none;
  return wave.stop(in, mapped ? FaultKind::forbidden_access : FaultKind::unmapped_address, va, lane, access, size_bytes);
}

bool goes_on_beyond_lds(WaveContext& wave, const Instruction& in, std::uint32_t offset, unsigned lane, AccessKind access,
                        unsigned size_bytes) noexcept {
  if (wave.group == nullptr || wave.group->goes_on_beyond_lds == nullptr || !*wave.group->goes_on_beyond_lds) return true;
  wave.stop(in, FaultKind::lds_out_of_range, offset, lane, access, size_bytes);
  if (!(*wave.group->goes_on_beyond_lds)(wave.fault)) return false;
  wave.fault = Fault{};
  return true;
}

bool goes_on_beyond_lds(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes, AccessKind access, unsigned size_bytes,
                        std::uint64_t& inside) noexcept {
  inside = 0;
  for (std::uint64_t rest = lanes.mask; rest != 0; rest &= rest - 1) {
    const unsigned lane = first_lane(rest);
    const std::uint32_t offset = lanes.low(lane);
    if (std::uint64_t{offset} + size_bytes <= wave.lds_size_bytes) {
      inside |= std::uint64_t{1} << lane;
    } else if (!goes_on_beyond_lds(wave, in, offset, lane, access, size_bytes)) {
      return false;
    }
  }
  return true;
}

}  // namespace kerncap::softgpu
