// Reads the ring of the device: what stands at its read index, and whether that waits.
#include "hsa/blocked.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

#include "capture/own_memory.hpp"
#include "hsa/packets.hpp"

namespace kerncap::hsa {
namespace {

// None of a signal that the program has destroyed: the packet that we copied has gone by meanwhile. The runtime aborts
// the process where it is asked for such a signal's value, so it is read from the signal's memory, which may be gone too.
std::optional<std::int64_t> value_of(hsa_signal_t signal) noexcept {
  struct Head {
    amd_signal_kind64_t kind;
    std::int64_t value;
  } head{};
  static_assert(offsetof(amd_signal_t, kind) == offsetof(Head, kind) && offsetof(amd_signal_t, value) == offsetof(Head, value));
  if (!capture::read_own_memory(signal.handle, std::as_writable_bytes(std::span(&head, 1)))) return std::nullopt;
  return head.kind == AMD_SIGNAL_KIND_USER ? std::optional(head.value) : std::nullopt;
}

template <typename Body>
Body as(const Packet& packet) noexcept {
  static_assert(sizeof(Body) == sizeof(Packet));
  Body body;
  std::memcpy(&body, &packet, sizeof body);
  return body;
}

bool waits_for_value(const hsa_amd_barrier_value_packet_t& packet) noexcept {
  const std::optional<std::int64_t> whole = value_of(packet.signal);
  if (!whole) return false;
  const std::int64_t value = *whole & packet.mask;
  switch (packet.cond) {
    case HSA_SIGNAL_CONDITION_EQ: return value != packet.value;
    case HSA_SIGNAL_CONDITION_NE: return value == packet.value;
    case HSA_SIGNAL_CONDITION_LT: return value >= packet.value;
    case HSA_SIGNAL_CONDITION_GTE: return value < packet.value;
    default: return false;
  }
}

// Without the barrier bit, work before it may still run.
bool waits(const Packet& packet) noexcept {
  const std::uint16_t header = header_of(packet);
  if ((header & k_barrier_bit) == 0) return false;
  const auto holds = [](hsa_signal_t signal) { return signal.handle != 0 && value_of(signal).value_or(0) != 0; };
  switch (type_of(header)) {
    case HSA_PACKET_TYPE_BARRIER_AND: {
      const auto barrier = as<hsa_barrier_and_packet_t>(packet);
      return std::any_of(std::begin(barrier.dep_signal), std::end(barrier.dep_signal), holds);
    }
    case HSA_PACKET_TYPE_BARRIER_OR: {
      const auto barrier = as<hsa_barrier_or_packet_t>(packet);
      const auto passes = [](hsa_signal_t signal) { return signal.handle != 0 && value_of(signal).value_or(0) == 0; };
      return std::any_of(std::begin(barrier.dep_signal), std::end(barrier.dep_signal), holds) &&
             std::none_of(std::begin(barrier.dep_signal), std::end(barrier.dep_signal), passes);
    }
    case HSA_PACKET_TYPE_VENDOR_SPECIFIC: {  // HIP's hipStreamWaitValue
      const auto barrier = as<hsa_amd_barrier_value_packet_t>(packet);
      return barrier.header.AmdFormat == HSA_AMD_PACKET_TYPE_BARRIER_VALUE && waits_for_value(barrier);
    }
    default: return false;
  }
}

}  // namespace

bool is_blocked(const Queue& queue) noexcept {
  const hsa_queue_t* hardware = queue.hardware.load(std::memory_order_acquire);
  if (hardware == nullptr) return false;
  const auto* amd = reinterpret_cast<const amd_queue_v2_t*>(hardware);
  const std::uint64_t read = amd->read_dispatch_id;
  const std::uint64_t write = amd->write_dispatch_id;
  const auto* ring = static_cast<const Packet*>(hardware->base_address);
  // The device may move its read index at the start or at the end of a packet: look at both candidates.
  for (std::uint64_t at = read == 0 ? 0 : read - 1; at <= read && at < write; ++at) {
    const Packet packet = ring[at & (hardware->size - 1)];
    if (type_of(header_of(packet)) != HSA_PACKET_TYPE_INVALID) return waits(packet);
  }
  return false;
}

}  // namespace kerncap::hsa
