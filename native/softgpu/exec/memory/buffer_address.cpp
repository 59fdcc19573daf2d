// Buffer descriptors and the ways through them.
#include "softgpu/exec/memory/buffer_address.hpp"

#include <algorithm>

namespace kerncap::softgpu::inline KERNCAP_WAVE {

BufferDescriptor read_descriptor(const WaveContext& wave, const Instruction& in) noexcept {
  const std::uint32_t* word = &wave.sgpr[in.src[2].index];
  BufferDescriptor d{};
  d.base = word[0] | (std::uint64_t{word[1] & 0xFFFF} << 32);
  // Addresses are 48 bits wide; a GPU address has its top bits equal to bit 47, as on the CPU.
  if ((d.base >> 47) != 0) d.base |= 0xFFFF000000000000U;
  d.stride = (word[1] >> 16) & 0x3FFF;
  d.is_swizzled = (word[1] >> 31) != 0;
  d.record_count = word[2];
  for (unsigned i = 0; i < 4; ++i) d.select[i] = static_cast<std::uint8_t>((word[3] >> (3 * i)) & 7);
  d.number_format = static_cast<std::uint8_t>((word[3] >> 12) & 7);
  d.data_format = static_cast<std::uint8_t>((word[3] >> 15) & 15);
  d.index_stride = 8U << ((word[3] >> 21) & 3);
  d.adds_lane = ((word[3] >> 23) & 1) != 0;
  if (d.adds_lane) d.stride |= std::uint32_t{d.data_format} << 14;
  return d;
}

BufferAddress buffer_address(const WaveContext& wave, const Instruction& in) noexcept {
  const Row* vector = in.src[0].kind == OperandKind::none ? nullptr : wave.vgpr + in.src[0].index;
  BufferAddress address{};
  address.buffer = read_descriptor(wave, in);
  address.scalar_offset = wave.scalar32(in.src[3]);
  address.constant_offset = static_cast<std::uint32_t>(in.offset);
  address.index = in.memory.index_enable ? vector : nullptr;
  address.offset = in.memory.offset_enable ? vector + (in.memory.index_enable ? 1 : 0) : &k_zero_row;
  return address;
}

BufferAddress::Place BufferAddress::place(unsigned lane, unsigned at, unsigned size_bytes) const noexcept {
  const std::uint64_t record = (index != nullptr ? std::uint64_t{index->lane[lane]} : 0) + (buffer.adds_lane ? lane : 0);
  const std::uint64_t byte = std::uint64_t{offset->lane[lane]} + constant_offset + at;
  std::uint64_t buffer_offset = record * buffer.stride + byte;
  if (buffer.is_swizzled) {
    const std::uint64_t block = (record / buffer.index_stride) * buffer.stride + byte / 4 * 4;
    buffer_offset = block * buffer.index_stride + record % buffer.index_stride * 4 + byte % 4;
  }
  const bool by_record = buffer.is_swizzled && buffer.stride != 0;
  const bool in_range = by_record ? record < buffer.record_count : buffer_offset + size_bytes <= limit();
  return {buffer.base + scalar_offset + buffer_offset, in_range};
}

BufferPlan plan_buffer(WaveContext& wave, const BufferAddress& address, unsigned size_bytes) noexcept {
  BufferPlan plan{BufferShape::general, {}, {}};
  const BufferDescriptor& buffer = address.buffer;
  const std::uint64_t mask = active_lanes(wave);
  const std::uint64_t start = buffer.base + address.scalar_offset;
  if (buffer.is_swizzled) {
    // The stack of gfx90a: index = lane, 64 lanes a row. It is held to this wave's own part, as a flat access to the
    // same bytes is: hardware would let an overflow run into the neighbour's.
    const std::uint64_t own_bytes = std::uint64_t{wave.scratch_size_bytes_per_lane} * k_lanes;
    const bool is_stack = buffer.adds_lane && address.index == nullptr && buffer.index_stride == k_lanes &&
                          start >= wave.scratch_base && start - wave.scratch_base < own_bytes;
    if (!is_stack) return plan;
    const auto used = static_cast<std::uint32_t>((start - wave.scratch_base) / k_lanes);
    plan.shape = BufferShape::scratch;
    plan.scratch = {{start, address.offset, address.constant_offset, mask}, wave.scratch_size_bytes_per_lane - used};
    return plan;
  }
  if (address.index != nullptr || buffer.adds_lane) return plan;
  // No index: the stride does not matter, the address is a scalar base and a 32-bit offset.
  plan.lanes = {start + address.constant_offset, address.offset, 0, mask};
  const std::uint64_t limit = address.limit();
  const Span span = address.offset == &k_zero_row ? Span{} : span_of(wave, plan.lanes, size_bytes);
  if (std::uint64_t{span.high} + address.constant_offset + size_bytes > limit) {
    std::uint64_t inside = 0, touching = 0;
    for (unsigned i = 0; i < k_lanes; ++i) {
      const std::uint64_t byte = std::uint64_t{address.offset->lane[i]} + address.constant_offset;
      inside |= std::uint64_t{byte + size_bytes <= limit} << i;
      touching |= std::uint64_t{byte < limit} << i;
    }
    if (((inside ^ touching) & mask) != 0) return plan;
    plan.lanes.mask &= inside;
  }
  plan.shape = BufferShape::linear;
  return plan;
}

namespace {

// Byte by byte: parts of a swizzled dword may lie in two rows.
template <AccessKind k_access>
void note_piece(WaveContext& wave, const BufferAddress& address, unsigned lane, unsigned at, unsigned bytes) noexcept {
  for (unsigned i = 0; i < bytes; ++i) {
    const std::uint64_t va = address.place(lane, at + i, 1).va;
    if constexpr (k_access == AccessKind::write) wave.worker->memory.note_write(va, 1);
    else wave.worker->memory.note_read(va, 1);
  }
}

// Visits each dword, or narrower element, of each lane; bytes of a swizzled dword that straddles two rows one by one.
template <Rights k_wanted, AccessKind k_access, class InRange, class OutOfRange>
bool general(WaveContext& wave, const Instruction& in, const BufferAddress& address, unsigned size_bytes, bool whole,
             InRange&& move, OutOfRange&& skip) noexcept {
  for (std::uint64_t rest = active_lanes(wave); rest != 0; rest &= rest - 1) {
    const unsigned lane = first_lane(rest);
    std::byte* bounce = bounce_place(wave)(lane);
    const bool all_in_range = !whole || address.place(lane, 0, size_bytes).in_range;
    for (unsigned at = 0; at < size_bytes; at += 4) {
      const unsigned piece = std::min(4U, size_bytes - at);
      const BufferAddress::Place place = address.place(lane, at, piece);
      if (whole ? !all_in_range : !place.in_range) {
        skip(bounce + at, piece);
        continue;
      }
      const std::uint32_t phase = (address.offset->lane[lane] + address.constant_offset) % 4;
      const bool straddles = address.buffer.is_swizzled && phase + piece > 4;
      std::byte* host = straddles ? nullptr : wave.worker->memory.host(place.va, piece, k_wanted);
      if (wave.worker->memory.is_recorded()) [[unlikely]] note_piece<k_access>(wave, address, lane, at, piece);
      if (host != nullptr) {
        move(host, bounce + at, piece);
        continue;
      }
      for (unsigned i = 0; i < piece; ++i) {
        const std::uint64_t va = address.place(lane, at + i, 1).va;
        host = wave.worker->memory.host(va, 1, k_wanted);
        if (host == nullptr) {
          stop_at(wave, in, va, lane, k_access, size_bytes);
          return false;
        }
        move(host, bounce + at + i, 1);
      }
    }
  }
  return true;
}

void copy_piece(std::byte* to, const std::byte* from, unsigned size_bytes) noexcept {
  switch (size_bytes) {
    case 4: store_as(to, load_as<std::uint32_t>(from)); break;
    case 2: store_as(to, load_as<std::uint16_t>(from)); break;
    default: std::copy_n(from, size_bytes, to);
  }
}

}  // namespace

bool fetch_buffer(WaveContext& wave, const Instruction& in, const BufferAddress& address, unsigned size_bytes,
                  bool whole) noexcept {
  return general<Rights::read, AccessKind::read>(
      wave, in, address, size_bytes, whole,
      [](const std::byte* host, std::byte* bounce, unsigned size) { copy_piece(bounce, host, size); },
      [](std::byte* bounce, unsigned size) { std::fill_n(bounce, size, std::byte{0}); });
}

bool put_buffer(WaveContext& wave, const Instruction& in, const BufferAddress& address, unsigned size_bytes,
                bool whole) noexcept {
  return general<Rights::write, AccessKind::write>(
      wave, in, address, size_bytes, whole,
      [](std::byte* host, const std::byte* bounce, unsigned size) { copy_piece(host, bounce, size); },
      [](std::byte*, unsigned) {});
}

}  // namespace kerncap::softgpu
