// Whether a queue waits, from its ring alone: among it, barriers on signals that the program has destroyed meanwhile.
#include "hsa/blocked.hpp"

#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "../check.hpp"

namespace {

using kerncap::hsa::Packet;
using kerncap::hsa::Queue;

constexpr std::size_t k_page_bytes = 4096;
constexpr std::uint32_t k_slots = 4;

// A queue whose device stands in front of the packet in its second slot.
class Standing {
 public:
  Standing() {
    m_device.hsa_queue.base_address = m_ring.data();
    m_device.hsa_queue.size = k_slots;
    m_device.read_dispatch_id = 1;
    m_device.write_dispatch_id = 2;
    m_queue.hardware = &m_device.hsa_queue;
    for (Packet& packet : m_ring) set_header(packet, HSA_PACKET_TYPE_INVALID);
  }
  template <typename Body>
  bool is_blocked_by(const Body& body) {
    static_assert(sizeof body == sizeof(Packet));
    std::memcpy(&m_ring[1], &body, sizeof body);
    return kerncap::hsa::is_blocked(m_queue);
  }

 private:
  static void set_header(Packet& packet, std::uint16_t type) {
    const auto header = static_cast<std::uint16_t>(type << HSA_PACKET_HEADER_TYPE);
    std::memcpy(&packet, &header, sizeof header);
  }

  std::array<Packet, k_slots> m_ring{};
  amd_queue_v2_t m_device{};
  Queue m_queue;
};

hsa_signal_t handle_of(const void* signal) { return {reinterpret_cast<std::uint64_t>(signal)}; }

amd_signal_t signal_of(std::int64_t value, amd_signal_kind_t kind = AMD_SIGNAL_KIND_USER) {
  amd_signal_t signal{};
  signal.kind = kind;
  signal.value = value;
  return signal;
}

std::uint16_t header_of(std::uint16_t type, bool barrier_bit = true) {
  return static_cast<std::uint16_t>(type << HSA_PACKET_HEADER_TYPE | (barrier_bit ? kerncap::hsa::k_barrier_bit : 0));
}

hsa_barrier_and_packet_t all_of(hsa_signal_t first, hsa_signal_t second = {}) {
  hsa_barrier_and_packet_t packet{};
  packet.header = header_of(HSA_PACKET_TYPE_BARRIER_AND);
  packet.dep_signal[0] = first;
  packet.dep_signal[1] = second;
  return packet;
}

hsa_barrier_or_packet_t any_of(hsa_signal_t first, hsa_signal_t second = {}) {
  hsa_barrier_or_packet_t packet{};
  packet.header = header_of(HSA_PACKET_TYPE_BARRIER_OR);
  packet.dep_signal[0] = first;
  packet.dep_signal[1] = second;
  return packet;
}

hsa_amd_barrier_value_packet_t until(hsa_signal_t signal, hsa_signal_condition32_t condition, std::int64_t value) {
  hsa_amd_barrier_value_packet_t packet{};
  packet.header.header = header_of(HSA_PACKET_TYPE_VENDOR_SPECIFIC);
  packet.header.AmdFormat = HSA_AMD_PACKET_TYPE_BARRIER_VALUE;
  packet.signal = signal;
  packet.cond = condition;
  packet.value = value;
  packet.mask = -1;
  return packet;
}

void test_barriers() {
  Standing queue;
  const amd_signal_t open = signal_of(0), closed = signal_of(1);
  CHECK(!queue.is_blocked_by(all_of({})));
  CHECK(!queue.is_blocked_by(all_of(handle_of(&open))));
  CHECK(queue.is_blocked_by(all_of(handle_of(&open), handle_of(&closed))));
  CHECK(queue.is_blocked_by(any_of(handle_of(&closed))));
  CHECK(!queue.is_blocked_by(any_of(handle_of(&closed), handle_of(&open))));
  CHECK(queue.is_blocked_by(until(handle_of(&open), HSA_SIGNAL_CONDITION_GTE, 1)));
  CHECK(!queue.is_blocked_by(until(handle_of(&closed), HSA_SIGNAL_CONDITION_GTE, 1)));
}

void test_what_does_not_wait() {
  Standing queue;
  const amd_signal_t closed = signal_of(1);
  hsa_barrier_and_packet_t without_bit = all_of(handle_of(&closed));
  without_bit.header = header_of(HSA_PACKET_TYPE_BARRIER_AND, false);
  CHECK(!queue.is_blocked_by(without_bit));
  hsa_kernel_dispatch_packet_t dispatch{};
  dispatch.header = header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH);
  CHECK(!queue.is_blocked_by(dispatch));
}

// The device goes past a barrier, and the program destroys its signal, while we look at a copy of the packet.
void test_destroyed_signals() {
  Standing queue;
  const amd_signal_t invalid = signal_of(1, AMD_SIGNAL_KIND_INVALID), closed = signal_of(1);
  void* page = mmap(nullptr, k_page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  munmap(page, k_page_bytes);
  for (const hsa_signal_t gone : {handle_of(&invalid), handle_of(page)}) {
    CHECK(!queue.is_blocked_by(all_of(gone)));
    CHECK(queue.is_blocked_by(all_of(gone, handle_of(&closed))));
    CHECK(!queue.is_blocked_by(any_of(gone)));
    CHECK(!queue.is_blocked_by(any_of(gone, handle_of(&closed))));
    CHECK(!queue.is_blocked_by(until(gone, HSA_SIGNAL_CONDITION_GTE, 1)));
    CHECK(!queue.is_blocked_by(until(gone, HSA_SIGNAL_CONDITION_EQ, 1)));
  }
}

}  // namespace

int main() {
  test_barriers();
  test_what_does_not_wait();
  test_destroyed_signals();
  return kerncap::test::exit_code();
}
