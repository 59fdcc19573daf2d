// Packet layouts: dwords, little-endian; the first has the opcode in bits 0-7 and the sub-opcode in bits 8-15.
#include "softgpu/device/sdma_queue.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

#include "softgpu/device/clock.hpp"
#include "softgpu/device/formatted.hpp"
#include "softgpu/device/reach.hpp"
#include "softgpu/device/report.hpp"

namespace kerncap::softgpu {
namespace {

enum Opcode : std::uint32_t {
  k_nop = 0, k_copy = 1, k_fence = 5, k_trap = 6, k_poll = 8, k_atomic = 10, k_fill = 11,
  k_timestamp = 13, k_cache_control = 17,
};
constexpr std::uint32_t k_copy_linear = 0, k_copy_rectangle = 4;
constexpr std::uint32_t k_timestamp_get_global = 2;
constexpr std::uint32_t k_atomic_add64 = 47;
constexpr std::uint64_t k_piece_bytes = 1 << 20;

[[nodiscard]] std::uint32_t bits(std::uint32_t word, unsigned low, unsigned count) noexcept {
  return word >> low & ((1U << count) - 1);
}
[[nodiscard]] std::uint64_t address(const std::uint32_t* words) noexcept {
  return words[0] | std::uint64_t{words[1]} << 32;
}

// How many dwords must be there before a packet can be looked at.
[[nodiscard]] unsigned packet_dwords(std::uint32_t header) noexcept {
  switch (bits(header, 0, 8)) {
    case k_copy: return bits(header, 8, 8) == k_copy_rectangle ? 13 : 7;
    case k_fence: return 4;
    case k_trap: return 2;
    case k_poll: return 6;
    case k_atomic: return 8;
    case k_fill: return 5;
    case k_timestamp: return 3;
    case k_cache_control: return 5;
    default: return 1;
  }
}

// The count has 22 or 30 bits, by the chip; where it has 22, the bits above are zero.
[[nodiscard]] std::uint64_t copied_bytes(const std::uint32_t* words) noexcept {
  return std::uint64_t{bits(words[1], 0, 30)} + 1;
}
[[nodiscard]] std::uint64_t filled_bytes(const std::uint32_t* words) noexcept {
  return std::uint64_t{bits(words[4], 0, 30)} + (1U << bits(words[0], 30, 2));
}

// One side of a copy of a rectangle, in bytes: five words.
struct Side {
  Side(const std::uint32_t* words, unsigned element_shift) noexcept
      : base(address(words)), x(std::uint64_t{bits(words[2], 0, 14)} << element_shift), y(bits(words[2], 16, 14)),
        z(bits(words[3], 0, 11)), pitch((std::uint64_t{bits(words[3], 13, 19)} + 1) << element_shift),
        slice((std::uint64_t{bits(words[4], 0, 28)} + 1) << element_shift) {}
  [[nodiscard]] std::uint64_t row(std::uint64_t row_y, std::uint64_t row_z) const noexcept {
    return base + x + (y + row_y) * pitch + (z + row_z) * slice;
  }
  std::uint64_t base, x, y, z, pitch, slice;
};

struct Rectangle {
  explicit Rectangle(const std::uint32_t* words) noexcept
      : from(&words[1], shift(words)), to(&words[6], shift(words)),
        row_bytes((std::uint64_t{bits(words[11], 0, 14)} + 1) << shift(words)), height(bits(words[11], 16, 14) + 1),
        depth(bits(words[12], 0, 11) + 1) {}
  static unsigned shift(const std::uint32_t* words) noexcept { return bits(words[0], 29, 3); }
  Side from, to;
  std::uint64_t row_bytes, height, depth;
};

// What a packet asks for, in words; nothing for padding.
[[nodiscard]] std::string text_of(const std::uint32_t* words) {
  using Wide = unsigned long long;
  const auto at = [&](unsigned word) { return static_cast<Wide>(address(&words[word])); };
  switch (bits(words[0], 0, 8)) {
    case k_copy: {
      if (bits(words[0], 8, 8) == k_copy_linear) {
        return formatted("%llu bytes from 0x%llx to 0x%llx", static_cast<Wide>(copied_bytes(words)), at(3), at(5));
      }
      const Rectangle rectangle(words);
      return formatted("a rectangle of %llu bytes x %llu x %llu from 0x%llx to 0x%llx",
                       static_cast<Wide>(rectangle.row_bytes), static_cast<Wide>(rectangle.height),
                       static_cast<Wide>(rectangle.depth), static_cast<Wide>(rectangle.from.row(0, 0)),
                       static_cast<Wide>(rectangle.to.row(0, 0)));
    }
    case k_fence: return formatted("fence, which writes %u to 0x%llx", words[3], at(1));
    case k_trap: return formatted("event %u", bits(words[1], 0, 28));
    case k_poll: return bits(words[0], 31, 1) != 0 ? formatted("wait for 0x%llx", at(1)) : "flush of the host's data path";
    case k_atomic: return formatted("add of %lld to 0x%llx", static_cast<long long>(address(&words[3])), at(1));
    case k_fill: return formatted("fill of %llu bytes at 0x%llx with 0x%x", static_cast<Wide>(filled_bytes(words)), at(1), words[3]);
    case k_timestamp: return formatted("time stamp to 0x%llx", at(1));
    case k_cache_control: return "cache control";
    default: return {};
  }
}

}  // namespace

SdmaQueue::SdmaQueue(const QueueContext& context, const QueueSettings& settings)
    : Queue(context, settings), m_memory(context.gpu.space) {}

void SdmaQueue::stop() {
  const std::lock_guard lock(m_mutex);
  m_alive = false;
}

Queue::Progress SdmaQueue::step() {
  const std::lock_guard lock(m_mutex);
  if (!m_alive || is_suspended()) return Progress::rests;
  const std::uint64_t written = doorbell();
  // All ones is the value before any ring.
  if (written == ~std::uint64_t{0} || written == m_read_bytes) return Progress::rests;
  const std::uint64_t available = (written - m_read_bytes) / 4;

  Words words{};
  if (!fetch(1, words)) return Progress::rests;
  const unsigned needed = packet_dwords(words[0]);
  if (available > m_settings.ring_bytes / 4 || needed > available) {
    unknown(words[0], "a packet that is not all there, or a write index beyond the ring");
    return Progress::rests;
  }
  if (!fetch(needed, words)) return Progress::rests;
  const Outcome outcome = execute(words, available);
  switch (outcome.kind) {
    case Outcome::Kind::again: return Progress::worked;
    case Outcome::Kind::waits: return Progress::polls;
    case Outcome::Kind::failed: return Progress::rests;
    case Outcome::Kind::done: break;
  }
  if (is_tracing()) {
    const std::string text = text_of(words);
    if (!text.empty()) {
      trace("queue %u, copy packet at %llu: %s", m_settings.id, static_cast<unsigned long long>(m_read_bytes), text.c_str());
    }
  }
  m_progress = 0;
  m_read_bytes += std::uint64_t{outcome.dwords} * 4;
  if (!m_memory.store(m_settings.read_pointer_va, m_read_bytes)) {
    checked(false, 0);
    return Progress::rests;
  }
  return Progress::worked;
}

bool SdmaQueue::fetch(unsigned dwords, Words& words) {
  for (unsigned i = 0; i < dwords; ++i) {
    const std::uint64_t at = (m_read_bytes + i * 4) % m_settings.ring_bytes;
    if (!m_memory.read(m_settings.ring_va + at, &words[i], 4)) {
      checked(false, 0);
      return false;
    }
  }
  return true;
}

SdmaQueue::Outcome SdmaQueue::checked(bool succeeded, unsigned dwords) {
  if (succeeded) return {Outcome::Kind::done, dwords};
  const MemoryFault& fault = m_memory.fault();
  const std::string why(fault.why(whose_memory(m_context.gpu, m_context.gpus, fault.address)));
  report("%s copy queue %u: %s at 0x%llx: %s", name(m_context.gpu.chip.target).data(), m_settings.id, fault.what(),
         static_cast<unsigned long long>(fault.address), why.c_str());
  m_alive = false;
  m_context.events.memory_exception(m_context.gpu.id, fault.address, fault.is_read_only(), false);
  return {Outcome::Kind::failed};
}

SdmaQueue::Outcome SdmaQueue::unknown(std::uint32_t header, const char* what) {
  report("%s copy queue %u: packet 0x%08x: %s", name(m_context.gpu.chip.target).data(), m_settings.id, header, what);
  m_alive = false;
  m_context.events.hardware_exception(m_context.gpu.id);
  return {Outcome::Kind::failed};
}

SdmaQueue::Outcome SdmaQueue::execute(const Words& words, std::uint64_t available_dwords) {
  const std::uint32_t header = words[0], sub_opcode = bits(header, 8, 8);
  switch (bits(header, 0, 8)) {
    case k_nop: {
      if (header == 0) return skip_zeros(available_dwords);
      const std::uint64_t dwords = bits(header, 16, 14) + 1;
      if (dwords > available_dwords) return unknown(header, "a no-operation longer than what was written");
      return {Outcome::Kind::done, static_cast<unsigned>(dwords)};
    }
    case k_copy:
      if (sub_opcode == k_copy_linear) return copy_linear(words);
      if (sub_opcode == k_copy_rectangle) return copy_rectangle(words);
      return unknown(header, "a kind of copy that is not emulated");
    case k_fence: {
      const Outcome outcome = checked(m_memory.store<std::uint32_t>(address(&words[1]), words[3]), 4);
      m_context.changed();
      return outcome;
    }
    case k_trap:
      m_context.events.set(bits(words[1], 0, 28));
      return {Outcome::Kind::done, 2};
    case k_poll: return poll(words);
    case k_atomic: return atomic(words);
    case k_fill: return fill(words);
    case k_timestamp:
      if (sub_opcode != k_timestamp_get_global) return unknown(header, "a kind of time stamp that is not emulated");
      return checked(m_memory.store<std::uint64_t>(address(&words[1]), gpu_ticks()), 3);
    case k_cache_control: return {Outcome::Kind::done, 5};  // memory is coherent
    default: return unknown(header, "not emulated");
  }
}

// ROCr pads the ring to its end with empty dwords, up to a million bytes of them.
SdmaQueue::Outcome SdmaQueue::skip_zeros(std::uint64_t available_dwords) {
  std::uint32_t block[1024];
  const std::uint64_t at = m_read_bytes % m_settings.ring_bytes;
  const std::uint64_t dwords = std::min({available_dwords, (m_settings.ring_bytes - at) / 4, std::uint64_t{1024}});
  if (!m_memory.read(m_settings.ring_va + at, block, dwords * 4)) return checked(false, 0);
  const auto* first = std::find_if(block, block + dwords, [](std::uint32_t word) { return word != 0; });
  return {Outcome::Kind::done, static_cast<unsigned>(first - block)};
}

SdmaQueue::Outcome SdmaQueue::copy_linear(const Words& words) {
  const std::uint64_t size_bytes = copied_bytes(words);
  const std::uint64_t piece = std::min(k_piece_bytes, size_bytes - m_progress);
  if (!m_memory.copy(address(&words[5]) + m_progress, address(&words[3]) + m_progress, piece)) return checked(false, 0);
  m_progress += piece;
  return m_progress < size_bytes ? Outcome{Outcome::Kind::again} : Outcome{Outcome::Kind::done, 7};
}

SdmaQueue::Outcome SdmaQueue::copy_rectangle(const Words& words) {
  const auto [from, to, row_bytes, height, depth] = Rectangle(words);
  for (std::uint64_t budget = k_piece_bytes; m_progress < height * depth;) {
    const std::uint64_t y = m_progress % height, z = m_progress / height;
    if (!m_memory.copy(to.row(y, z), from.row(y, z), row_bytes)) return checked(false, 0);
    ++m_progress;
    if (budget <= row_bytes) break;
    budget -= row_bytes;
  }
  return m_progress < height * depth ? Outcome{Outcome::Kind::again} : Outcome{Outcome::Kind::done, 13};
}

SdmaQueue::Outcome SdmaQueue::poll(const Words& words) {
  const Outcome done{Outcome::Kind::done, 6};
  const bool memory = bits(words[0], 31, 1) != 0;
  if (!memory) return done;  // a register: the flush of the host data path, which has nothing to flush here
  const auto value = m_memory.load<std::uint32_t>(address(&words[1]));
  if (!value) return checked(false, 0);
  const std::uint32_t masked = *value & words[4], reference = words[3];
  bool met = true;
  switch (bits(words[0], 28, 3)) {
    case 0: met = true; break;
    case 1: met = masked < reference; break;
    case 2: met = masked <= reference; break;
    case 3: met = masked == reference; break;
    case 4: met = masked != reference; break;
    case 5: met = masked >= reference; break;
    case 6: met = masked > reference; break;
    default: return unknown(words[0], "an unknown condition to poll for");
  }
  return met ? done : Outcome{Outcome::Kind::waits};
}

SdmaQueue::Outcome SdmaQueue::atomic(const Words& words) {
  if (bits(words[0], 25, 7) != k_atomic_add64) return unknown(words[0], "an atomic operation that is not emulated");
  const Outcome outcome = checked(m_memory.add<std::uint64_t>(address(&words[1]), address(&words[3])), 8);
  m_context.changed();
  return outcome;
}

SdmaQueue::Outcome SdmaQueue::fill(const Words& words) {
  if (bits(words[0], 30, 2) > 2) return unknown(words[0], "a fill with elements that are wider than the pattern");
  const unsigned element_bytes = 1U << bits(words[0], 30, 2);
  const std::uint64_t size_bytes = filled_bytes(words);
  const std::uint64_t piece = std::min(k_piece_bytes, size_bytes - m_progress);
  if (!m_memory.fill(address(&words[1]) + m_progress, words[3], element_bytes, piece)) return checked(false, 0);
  m_progress += piece;
  return m_progress < size_bytes ? Outcome{Outcome::Kind::again} : Outcome{Outcome::Kind::done, 5};
}

}  // namespace kerncap::softgpu
