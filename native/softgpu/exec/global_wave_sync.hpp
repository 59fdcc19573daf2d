// Global wave sync: 64 resources that waves of a whole dispatch share, one set for each GPU of a process. Each is a barrier
// or a semaphore, as the instructions use it.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace kerncap::softgpu {

class GlobalWaveSync {
 public:
  static constexpr unsigned k_resources = 64;

  // The barrier opens whenever value + 1 waves have come; the semaphore lets `value` waves pass.
  void init(unsigned resource, std::uint32_t value) {
    const std::lock_guard lock(m_mutex);
    m_barriers[resource] = {value, 0, m_barriers[resource].opened + 1};
    m_semaphores[resource] = {value, 0};
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

  void signal(unsigned resource, std::uint32_t count) {
    const std::lock_guard lock(m_mutex);
    m_semaphores[resource].count += count;
  }
  // As many as wait now may pass.
  void release_all(unsigned resource) {
    const std::lock_guard lock(m_mutex);
    m_semaphores[resource].count = m_semaphores[resource].waiting;
  }
  // Takes one of the count, where there is one. is_waiting: this wave has asked before; set when it has to ask again.
  [[nodiscard]] bool pass(unsigned resource, bool& is_waiting) {
    const std::lock_guard lock(m_mutex);
    Semaphore& semaphore = m_semaphores[resource];
    if (semaphore.count == 0) {
      if (!is_waiting) ++semaphore.waiting;
      is_waiting = true;
      return false;
    }
    --semaphore.count;
    if (is_waiting && semaphore.waiting != 0) --semaphore.waiting;
    is_waiting = false;
    return true;
  }

 private:
  struct Semaphore {
    std::uint64_t count = 0, waiting = 0;
  };
  struct Barrier {
    std::uint32_t waves_minus_one = 0;
    std::uint32_t arrived = 0;
    std::uint64_t opened = 0;  // how often
  };
  std::mutex m_mutex;
  std::array<Barrier, k_resources> m_barriers{};
  std::array<Semaphore, k_resources> m_semaphores{};
};

}  // namespace kerncap::softgpu
