// Global wave sync: 64 barriers that waves of a whole dispatch share, one set for each GPU of a process.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace kerncap::softgpu {

class GlobalWaveSync {
 public:
  static constexpr unsigned k_resources = 64;

  // The barrier opens whenever waves_minus_one + 1 waves have come.
  void init(unsigned resource, std::uint32_t waves_minus_one) {
    const std::lock_guard lock(m_mutex);
    m_barriers[resource] = {waves_minus_one, 0, m_barriers[resource].opened + 1};
  }

  // A wave comes. Returns the ticket to ask with; waves_minus_one is for the time after the barrier has opened.
  [[nodiscard]] std::uint64_t arrive(unsigned resource, std::uint32_t waves_minus_one) {
    const std::lock_guard lock(m_mutex);
    Barrier& barrier = m_barriers[resource];
    const std::uint64_t ticket = barrier.opened + 1;
    if (barrier.arrived++ >= barrier.waves_minus_one) barrier = {waves_minus_one, 0, ticket};
    return ticket;
  }
  [[nodiscard]] bool has_opened(unsigned resource, std::uint64_t ticket) {
    const std::lock_guard lock(m_mutex);
    return m_barriers[resource].opened >= ticket;
  }

 private:
  struct Barrier {
    std::uint32_t waves_minus_one = 0;
    std::uint32_t arrived = 0;
    std::uint64_t opened = 0;  // how often
  };
  std::mutex m_mutex;
  std::array<Barrier, k_resources> m_barriers{};
};

}  // namespace kerncap::softgpu
