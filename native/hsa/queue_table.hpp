// From the handle that the program holds to our queue: read with every look at a read index, without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hsa/hsa_headers.hpp"

namespace kerncap::hsa {

struct Queue;

// Open addressing, of fixed size: a process has a few dozen queues. One that finds no place is not found later.
class QueueTable {
 public:
  [[nodiscard]] Queue* find(const hsa_queue_t* handle) const noexcept {
    for (std::size_t i = 0; i < k_longest_search; ++i) {
      const Slot& slot = m_slots[(hash(handle) + i) % k_slots];
      const hsa_queue_t* key = slot.handle.load(std::memory_order_acquire);
      if (key == handle) return slot.queue.load(std::memory_order_acquire);
      if (key == nullptr) return nullptr;
    }
    return nullptr;
  }

  // One writer at a time. A handle that comes back takes the place that it had.
  void add(const hsa_queue_t* handle, Queue* queue) noexcept {
    for (std::size_t i = 0; i < k_longest_search; ++i) {
      Slot& slot = m_slots[(hash(handle) + i) % k_slots];
      const hsa_queue_t* key = slot.handle.load(std::memory_order_relaxed);
      if (key != nullptr && key != handle) continue;
      slot.queue.store(queue, std::memory_order_release);
      slot.handle.store(handle, std::memory_order_release);
      return;
    }
  }

 private:
  static constexpr std::size_t k_slots = 4096;
  static constexpr std::size_t k_longest_search = 64;
  struct Slot {
    std::atomic<const hsa_queue_t*> handle{nullptr};
    std::atomic<Queue*> queue{nullptr};
  };
  static std::size_t hash(const hsa_queue_t* handle) noexcept {
    return static_cast<std::size_t>((reinterpret_cast<std::uint64_t>(handle) >> 6) * 0x9E3779B97F4A7C15ull >> 20);
  }

  std::array<Slot, k_slots> m_slots{};
};

}  // namespace kerncap::hsa
