// Where the runtime keeps the arguments of dispatches, learned from those that go by. HIP has such memory for each of its
// streams, and several streams share a queue.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kerncap::capture {

// The latest address in each MiB. Of the first 8 MiB that would have one place, each gets one near by.
// Callbacks of all queues write to it: no lock, no allocation.
class ArgumentPlaces {
 public:
  void see(std::uint64_t address) noexcept {
    for (std::size_t i = 0; i < k_tries; ++i) {
      std::atomic<std::uint64_t>& place = m_latest[((address >> k_shift) + i) % m_latest.size()];
      std::uint64_t known = place.load(std::memory_order_relaxed);
      if (known == 0 && place.compare_exchange_strong(known, address, std::memory_order_relaxed)) return;
      if (known >> k_shift != address >> k_shift) continue;
      place.store(address, std::memory_order_relaxed);
      return;
    }
    m_latest[(address >> k_shift) % m_latest.size()].store(address, std::memory_order_relaxed);
  }

  // New memory: what was seen at its addresses was in memory that is gone.
  void forget(std::uint64_t base, std::uint64_t bytes) noexcept {
    for (std::atomic<std::uint64_t>& place : m_latest) {
      std::uint64_t known = place.load(std::memory_order_relaxed);
      // A place that is empty in between ends no search: another then has the same MiB twice, which does no harm.
      if (known - base < bytes) place.compare_exchange_strong(known, 0, std::memory_order_relaxed);
    }
  }

  [[nodiscard]] std::vector<std::uint64_t> all() const {
    std::vector<std::uint64_t> found;
    for (const std::atomic<std::uint64_t>& place : m_latest) {
      if (const std::uint64_t address = place.load(std::memory_order_relaxed); address != 0) found.push_back(address);
    }
    return found;
  }

 private:
  static constexpr unsigned k_shift = 20;
  static constexpr std::size_t k_tries = 8;
  std::array<std::atomic<std::uint64_t>, 1024> m_latest{};
};

}  // namespace kerncap::capture
