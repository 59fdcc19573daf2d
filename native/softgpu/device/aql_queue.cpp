#include "softgpu/device/aql_queue.hpp"

#include <cstddef>
#include <cstdio>
#include <string>

#include "softgpu/device/clock.hpp"
#include "softgpu/device/packet_text.hpp"
#include "softgpu/device/reach.hpp"
#include "softgpu/device/refusals.hpp"
#include "softgpu/device/report.hpp"

namespace kerncap::softgpu {
namespace {

// How long a packet may lie in the ring without having been announced.
constexpr std::uint64_t k_unannounced_ns = 200'000;

[[nodiscard]] TimeStamps now() noexcept {
  const std::uint64_t ticks = gpu_ticks();
  return {ticks, ticks};
}

// The driver's numbers for the same errors (KFD_EC_* in its header), as a bit mask.
[[nodiscard]] std::uint64_t exception_mask(aql::QueueError error) noexcept {
  const auto bit = [](unsigned code) { return std::uint64_t{1} << (code - 1); };
  switch (error) {
    case aql::QueueError::invalid_dimension: return bit(16);
    case aql::QueueError::invalid_group_memory: return bit(17);
    case aql::QueueError::invalid_code: return bit(18);
    case aql::QueueError::invalid_packet: return bit(20);
    case aql::QueueError::group_too_large: return bit(21);
    case aql::QueueError::out_of_registers: return bit(22);
    case aql::QueueError::invalid_vendor_packet: return bit(23);
    case aql::QueueError::aperture_violation: return bit(6);
    case aql::QueueError::illegal_instruction: return bit(4);
    default: return bit(2);  // a trap of the wave
  }
}

}  // namespace

AqlQueue::AqlQueue(const QueueContext& context, const QueueSettings& settings)
    : Queue(context, settings), m_memory(context.gpu.space),
      m_queue_va(settings.write_pointer_va - offsetof(aql::Queue, write_dispatch_id)) {}

Queue::Progress AqlQueue::step() {
  const std::lock_guard lock(m_mutex);
  return advance();
}

void AqlQueue::stop() {
  {
    const std::lock_guard lock(m_mutex);
    m_state = State::stopped;
  }
  m_context.engine.abort(this);
}

void AqlQueue::note_doorbell() noexcept {
  // Producers of a shared queue ring in any order: the highest index counts. All ones is the value before any ring.
  const std::uint64_t announced = doorbell() + 1;
  if (static_cast<std::int64_t>(announced - m_submitted) > 0) m_submitted = announced;
}

// Hardware sees each ring. Here a ring that comes late takes the place of a higher one that nobody has read yet, and
// the packets between the two are never announced. A packet that is whole belongs to the packet processor, announced
// or not; it waits for a moment, as some programs write the header before the rest.
bool AqlQueue::has_unannounced() noexcept {
  const auto reserved = m_memory.load<std::uint64_t>(m_settings.write_pointer_va);
  if (!reserved || static_cast<std::int64_t>(*reserved - m_next) <= 0) return false;
  // The slot may still hold the packet that was in it one round ago.
  const std::uint64_t round = m_settings.ring_bytes / aql::k_packet_bytes;
  if (!m_in_flight.empty() && m_next - m_in_flight.front().index >= round) return false;
  const auto header = m_memory.load<std::uint16_t>(packet_address(m_next));
  return header && static_cast<aql::PacketType>(*header & 0xFF) != aql::PacketType::invalid;
}

bool AqlQueue::has_announced() noexcept {
  note_doorbell();
  if (m_next != m_submitted || !has_unannounced()) {
    m_unannounced_since_ns = 0;
    return m_next != m_submitted;
  }
  const std::uint64_t now_ns = read_clock_ns(CLOCK_MONOTONIC);
  if (m_unannounced_since_ns == 0) m_unannounced_since_ns = now_ns;
  if (now_ns - m_unannounced_since_ns < k_unannounced_ns) return false;
  m_submitted = m_next + 1;
  m_unannounced_since_ns = 0;
  return true;
}

Queue::Progress AqlQueue::advance() {
  bool worked = false;
  while (m_state == State::running && !is_suspended()) {
    if (m_scratch_requested) {
      // ROCr answers a request by clearing the signal, after it has written the new scratch memory into the queue.
      const std::int64_t answer = inactive_value();
      if (answer > 0) return worked ? Progress::worked : Progress::polls;
      if (answer < 0) m_state = State::failed;  // none to be had, or the queue is about to go
      m_scratch_requested = false;
      continue;
    }
    if (!has_announced()) {
      if (m_unannounced_since_ns != 0) return worked ? Progress::worked : Progress::polls;
      break;
    }
    switch (start(m_next)) {
      case Start::started:
        ++m_next;
        worked = true;
        retire();
        break;
      case Start::waits_for_memory: return worked ? Progress::worked : Progress::polls;
      case Start::waits_for_kernels: return worked ? Progress::worked : Progress::rests;
      case Start::failed: return Progress::rests;
    }
  }
  return worked ? Progress::worked : Progress::rests;
}

std::int64_t AqlQueue::inactive_value() {
  const auto signal = m_memory.load<std::uint64_t>(m_queue_va + offsetof(aql::Queue, queue_inactive_signal));
  if (!signal) return 0;
  return m_memory.load<std::int64_t>(*signal + offsetof(aql::Signal, value)).value_or(0);
}

AqlQueue::Start AqlQueue::start(std::uint64_t index) {
  const std::uint64_t packet_va = packet_address(index);
  const auto header = m_memory.load<std::uint16_t>(packet_va);
  if (!header) return fail(index, m_memory.fault(), "the queue's ring");
  const auto type = static_cast<aql::PacketType>(*header & 0xFF);
  // Announced by one producer, not yet written by another.
  if (type == aql::PacketType::invalid) return Start::waits_for_memory;
  if ((*header & aql::k_header_barrier) != 0 && !m_in_flight.empty()) return Start::waits_for_kernels;

  aql::Packet packet{};
  if (!m_memory.read(packet_va, &packet, sizeof packet)) return fail(index, m_memory.fault(), "the queue's ring");
  if (is_tracing() && index >= m_traced) {  // once: a packet that waits is looked at again and again
    m_traced = index + 1;
    trace("queue %u, packet %llu: %s", m_settings.id, static_cast<unsigned long long>(index),
          packet_text(m_context.gpu.space, packet).c_str());
  }
  switch (type) {
    case aql::PacketType::kernel_dispatch: return start_kernel(index, packet.dispatch);
    case aql::PacketType::barrier_and: return finish_barrier(index, packet.barrier, false);
    case aql::PacketType::barrier_or: return finish_barrier(index, packet.barrier, true);
    case aql::PacketType::vendor_specific:
      switch (static_cast<aql::VendorFormat>(packet.barrier_value.format)) {
        case aql::VendorFormat::pm4_ib: return finish_pm4(index, packet.pm4);
        case aql::VendorFormat::barrier_value: return finish_barrier_value(index, packet.barrier_value);
      }
      return fail(index, aql::QueueError::invalid_vendor_packet,
                  "vendor packet of unknown format " + std::to_string(packet.barrier_value.format));
    default:
      return fail(index, aql::QueueError::invalid_packet,
                  "packet of type " + std::to_string(static_cast<unsigned>(type)) + ", which a GPU queue cannot run");
  }
}

AqlQueue::Start AqlQueue::finish_barrier(std::uint64_t index, const aql::Barrier& packet, bool any) {
  bool some = false, one_is_done = false;
  for (const std::uint64_t dependency : packet.dep_signal) {
    if (dependency == 0) continue;
    const auto value = m_memory.load<std::int64_t>(dependency + offsetof(aql::Signal, value));
    if (!value) return fail(index, m_memory.fault(), "a signal that a barrier packet waits for");
    some = true;
    one_is_done |= *value == 0;
    if (!any && *value != 0) return Start::waits_for_memory;
  }
  if (any && some && !one_is_done) return Start::waits_for_memory;
  return finish_at_once(index, packet.completion_signal);
}

AqlQueue::Start AqlQueue::finish_barrier_value(std::uint64_t index, const aql::BarrierValue& packet) {
  if (packet.signal != 0) {
    const auto value = m_memory.load<std::int64_t>(packet.signal + offsetof(aql::Signal, value));
    if (!value) return fail(index, m_memory.fault(), "a signal that a barrier-value packet waits for");
    const std::int64_t masked = *value & packet.mask;
    bool met = false;
    switch (packet.condition) {
      case 0: met = masked == packet.value; break;
      case 1: met = masked != packet.value; break;
      case 2: met = masked < packet.value; break;
      case 3: met = masked >= packet.value; break;
      default:
        return fail(index, aql::QueueError::invalid_vendor_packet,
                    "barrier-value packet with unknown condition " + std::to_string(packet.condition));
    }
    if (!met) return Start::waits_for_memory;
  }
  return finish_at_once(index, packet.completion_signal);
}

// Cache maintenance only: memory is coherent here, so it is enough to know that nothing else is asked for.
AqlQueue::Start AqlQueue::finish_pm4(std::uint64_t index, const aql::Pm4Buffer& packet) {
  constexpr std::uint32_t k_nop = 0x10, k_indirect_buffer = 0x3F, k_acquire_mem = 0x58, k_padding = 0x8000'0000;
  const auto opcode = [](std::uint32_t header) { return header >> 8 & 0xFF; };
  if (packet.jump[0] >> 30 != 3 || opcode(packet.jump[0]) != k_indirect_buffer) {
    return fail(index, aql::QueueError::invalid_vendor_packet, "PM4 packet that is no indirect buffer");
  }
  const std::uint64_t base = (packet.jump[1] & ~3U) | std::uint64_t{packet.jump[2] & 0xFFFF} << 32;
  const std::uint32_t dwords = packet.jump[3] & 0xF'FFFF;
  for (std::uint32_t at = 0; at < dwords;) {
    const auto header = m_memory.load<std::uint32_t>(base + at * 4);
    if (!header) return fail(index, m_memory.fault(), "a PM4 command buffer");
    if (*header == k_padding) {
      ++at;
      continue;
    }
    if (*header >> 30 != 3 || (opcode(*header) != k_nop && opcode(*header) != k_acquire_mem)) {
      char text[80];
      std::snprintf(text, sizeof text, "PM4 command 0x%08x, which is not emulated", *header);
      return fail(index, aql::QueueError::invalid_vendor_packet, text);
    }
    at += (*header >> 16 & 0x3FFF) + 2;
  }
  return finish_at_once(index, packet.completion_signal);
}

AqlQueue::Start AqlQueue::finish_at_once(std::uint64_t index, std::uint64_t completion_signal) {
  m_in_flight.push_back({index, 0, false, true});
  return signal(completion_signal, now()) ? Start::started
                                          : fail(index, m_memory.fault(), "the completion signal of a packet");
}

bool AqlQueue::signal(std::uint64_t signal_va, TimeStamps stamps) {
  if (signal_va == 0) return true;
  const auto properties = m_memory.load<std::uint32_t>(m_queue_va + offsetof(aql::Queue, queue_properties));
  const bool profiling = properties && (*properties & aql::k_queue_profiling) != 0;
  if (!complete_signal(m_memory, m_context.events, signal_va,
                       profiling ? std::optional<TimeStamps>(stamps) : std::nullopt)) {
    return false;
  }
  m_context.changed();
  return true;
}

void AqlQueue::retire() {
  while (!m_in_flight.empty() && m_in_flight.front().done) {
    const std::uint64_t index = m_in_flight.front().index;
    m_in_flight.pop_front();
    const bool written =
        m_memory.store(packet_address(index), static_cast<std::uint16_t>(aql::PacketType::invalid)) &&
        m_memory.store(m_settings.read_pointer_va, index + 1);
    if (!written) {
      fail(index, m_memory.fault(), "the queue's ring or read index");
      return;
    }
  }
}

std::uint64_t AqlQueue::packet_address(std::uint64_t index) const noexcept {
  return m_settings.ring_va + index * aql::k_packet_bytes % m_settings.ring_bytes;
}

AqlQueue::Start AqlQueue::fail(std::uint64_t index, aql::QueueError error, const std::string& message) {
  tell_refusal(std::string(name(m_context.gpu.chip.target)) + " queue " + std::to_string(m_settings.id) + ", packet " +
               std::to_string(index) + ": " + message);
  raise(error);
  return Start::failed;
}

AqlQueue::Start AqlQueue::fail(std::uint64_t index, const MemoryFault& fault, const char* what) {
  const std::string why(fault.why(whose_memory(m_context.gpu, m_context.gpus, fault.address)));
  report("%s queue %u, packet %llu: %s of %s at 0x%llx: %s", name(m_context.gpu.chip.target).data(), m_settings.id,
         static_cast<unsigned long long>(index), fault.what(), what, static_cast<unsigned long long>(fault.address),
         why.c_str());
  m_state = State::failed;
  m_context.events.memory_exception(m_context.gpu.id, fault.address, fault.is_read_only(), false);
  return Start::failed;
}

void AqlQueue::raise(aql::QueueError error) {
  m_state = State::failed;
  aql::ContextSaveHeader header{};
  if (m_settings.context_save_va != 0 && m_memory.read(m_settings.context_save_va, &header, sizeof header) &&
      header.error_reason_ptr != 0) {
    const auto reasons = m_memory.load<std::uint64_t>(header.error_reason_ptr);
    if (reasons && m_memory.store(header.error_reason_ptr, *reasons | exception_mask(error))) {
      if (header.error_event_id != 0) m_context.events.set(header.error_event_id);
      return;
    }
  }
  const auto signal = m_memory.load<std::uint64_t>(m_queue_va + offsetof(aql::Queue, queue_inactive_signal));
  if (!signal || *signal == 0 ||
      !store_signal(m_memory, m_context.events, *signal, static_cast<std::int64_t>(error))) {
    report("the queue's error signal cannot be written: the program will not hear of this");
  }
}

}  // namespace kerncap::softgpu
