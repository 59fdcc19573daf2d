// Reads the ring of the device: what stands at its read index, and whether that waits.
#include "hsa/blocked.hpp"

#include <algorithm>
#include <cstring>

#include "hsa/api.hpp"
#include "hsa/packets.hpp"

namespace kerncap::hsa {
namespace {

std::int64_t value_of(hsa_signal_t signal) noexcept { return api().core.hsa_signal_load_scacquire_fn(signal); }

template <typename Body>
Body as(const Packet& packet) noexcept {
  static_assert(sizeof(Body) == sizeof(Packet));
  Body body;
  std::memcpy(&body, &packet, sizeof body);
  return body;
}

bool waits_for_value(const hsa_amd_barrier_value_packet_t& packet) noexcept {
  const std::int64_t value = value_of(packet.signal) & packet.mask;
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
  const auto holds = [](hsa_signal_t signal) { return signal.handle != 0 && value_of(signal) != 0; };
  switch (type_of(header)) {
    case HSA_PACKET_TYPE_BARRIER_AND: {
      const auto barrier = as<hsa_barrier_and_packet_t>(packet);
      return std::any_of(std::begin(barrier.dep_signal), std::end(barrier.dep_signal), holds);
    }
    case HSA_PACKET_TYPE_BARRIER_OR: {
      const auto barrier = as<hsa_barrier_or_packet_t>(packet);
      const auto passes = [](hsa_signal_t signal) { return signal.handle != 0 && value_of(signal) == 0; };
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
