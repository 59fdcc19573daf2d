// AQL packets: what we read in the program's and what we put between them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hsa/hsa_headers.hpp"

namespace kerncap::hsa {

struct alignas(64) Packet {
  std::array<std::byte, 64> bytes;
};
static_assert(sizeof(Packet) == sizeof(hsa_kernel_dispatch_packet_t));
static_assert(sizeof(Packet) == sizeof(hsa_barrier_and_packet_t));

inline constexpr std::uint16_t k_barrier_bit = 1u << HSA_PACKET_HEADER_BARRIER;
inline constexpr std::uint16_t k_system_scopes =
    (HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE) |
    (HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);

[[nodiscard]] inline std::uint16_t header_of(const Packet& packet) noexcept {
  std::uint16_t header;
  std::memcpy(&header, packet.bytes.data(), sizeof header);
  return header;
}

[[nodiscard]] inline unsigned type_of(std::uint16_t header) noexcept {
  return (header >> HSA_PACKET_HEADER_TYPE) & 0xFFu;
}

[[nodiscard]] inline hsa_kernel_dispatch_packet_t as_dispatch(const Packet& packet) noexcept {
  hsa_kernel_dispatch_packet_t dispatch;
  std::memcpy(&dispatch, &packet, sizeof dispatch);
  return dispatch;
}

[[nodiscard]] inline Packet to_packet(const hsa_kernel_dispatch_packet_t& dispatch) noexcept {
  Packet packet{};
  std::memcpy(&packet, &dispatch, sizeof packet);
  return packet;
}

// Starts when everything before it in its queue is done and `wait_for` (if any) is zero; then takes one from
// `complete` (if any). What came before it is visible to the whole system.
[[nodiscard]] inline Packet barrier(hsa_signal_t wait_for, hsa_signal_t complete) noexcept {
  hsa_barrier_and_packet_t and_packet{};
  and_packet.header = static_cast<std::uint16_t>((HSA_PACKET_TYPE_BARRIER_AND << HSA_PACKET_HEADER_TYPE) |
                                                 k_barrier_bit | k_system_scopes);
  and_packet.dep_signal[0] = wait_for;
  and_packet.completion_signal = complete;
  Packet packet{};
  std::memcpy(&packet, &and_packet, sizeof packet);
  return packet;
}

// Publishes a packet in a ring slot: the header last, as it is what the reader looks at.
inline void publish(Packet& slot, const Packet& packet) noexcept {
  std::memcpy(&slot.bytes[4], &packet.bytes[4], sizeof(Packet) - 4);
  std::uint32_t first;
  std::memcpy(&first, packet.bytes.data(), sizeof first);
  std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(slot.bytes.data()))
      .store(first, std::memory_order_release);
}

// The packets of one callback. In some versions they still lie in the program's ring and may wrap around its
// end, in others they were copied out: the address tells.
class PacketView {
 public:
  PacketView(const void* packets, std::uint64_t count, std::uint64_t index, const hsa_queue_t& queue) noexcept
      : m_first(static_cast<const Packet*>(packets)), m_count(count), m_index(index) {
    const auto* ring = static_cast<const Packet*>(queue.base_address);
    if (m_first >= ring && m_first < ring + queue.size) {
      m_ring = ring;
      m_mask = queue.size - 1;
    }
  }
  [[nodiscard]] std::uint64_t size() const noexcept { return m_count; }
  [[nodiscard]] const Packet& operator[](std::uint64_t i) const noexcept {
    return m_ring != nullptr ? m_ring[(m_index + i) & m_mask] : m_first[i];
  }

 private:
  const Packet* m_first;
  const Packet* m_ring = nullptr;
  std::uint64_t m_count;
  std::uint64_t m_index;
  std::uint64_t m_mask = 0;
};

}  // namespace kerncap::hsa
