// Times every dispatch: a signal of ours goes into each packet, and one thread reads the time stamps that the
// device wrote there. A packet's own signal is completed by that thread, with the same time stamps.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "capture/protocol.hpp"
#include "capture/threads.hpp"
#include "hsa/hsa_headers.hpp"
#include "hsa/queues.hpp"

namespace kerncap::hsa {

// Dispatches of one queue whose time is not known yet. The queue's callback writes, the harvester reads.
struct PendingRing {
  struct Entry {
    hsa_signal_t ours{};
    hsa_signal_t theirs{};
    capture::Record record{};
    std::atomic<bool> waiting{false};
  };
  hsa_agent_t agent{};
  std::uint32_t device = 0;
  std::uint32_t queue = 0;
  std::uint32_t size = 0;
  std::unique_ptr<Entry[]> entries;
  alignas(64) std::atomic<std::uint64_t> head{0};
  alignas(64) std::atomic<std::uint64_t> tail{0};
  std::uint64_t stuck_at = ~std::uint64_t{0};   // the harvester's: the tail at the thread's last look

  [[nodiscard]] std::uint64_t under_way() const noexcept {
    const std::uint64_t read = tail.load(std::memory_order_acquire);
    return head.load(std::memory_order_acquire) - read;
  }
};

class Profiler {
 public:
  // Null when no signals can be had: the queue's dispatches go untimed, and that is counted.
  [[nodiscard]] PendingRing* add_queue(hsa_agent_t agent, std::uint32_t device, std::uint32_t queue,
                                       std::uint32_t packets) noexcept;

  // From the queue callback: gives the packet a signal. False: it stays as it is.
  bool time(Queue& queue, Packet& packet) noexcept;

  // Records what has ended by now. Also called when the program ends.
  void harvest() noexcept;

  // The runtime is about to go: ends the thread, records what has ended, destroys our signals. Bounded.
  void end() noexcept;

 private:
  void run() noexcept;
  void harvest_all(bool beyond_window) noexcept;
  // Looks at the first `most` entries. True: the program waits for one of its signals.
  [[nodiscard]] bool harvest(PendingRing& ring, std::uint64_t most) noexcept;

  std::mutex m_mutex;                          // rings, and one harvester at a time
  std::vector<std::unique_ptr<PendingRing>> m_rings;
  std::atomic<bool> m_hurry{false};
  capture::Thread m_thread;
  bool m_started = false;
};

}  // namespace kerncap::hsa
