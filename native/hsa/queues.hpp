// The program's queues, each made as an intercept queue, and the callback that sees every packet.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "capture/threads.hpp"
#include "core/result.hpp"
#include "hsa/device_errors.hpp"
#include "hsa/hsa_headers.hpp"
#include "hsa/packets.hpp"
#include "hsa/queue_table.hpp"

namespace kerncap::hsa {

struct PendingRing;

struct Queue {
  hsa_queue_t* handle = nullptr;         // what the program holds
  hsa_queue_t* below = nullptr;          // of a cooperative queue: the runtime's own, one for all users; else null
  std::uint32_t users = 1;               // of that
  std::uint32_t index = 0;
  std::uint32_t device = 0;
  std::uint32_t size = 0;
  bool is_cooperative = false;           // all work-groups of its dispatches are resident at once
  // The ring that the device reads, learned from a marker packet: tells whether the queue is blocked, and how full.
  std::atomic<const hsa_queue_t*> hardware{nullptr};
  std::atomic<std::uint64_t> shown_read_index{0};   // the latest that the program was told; never goes back
  std::atomic<bool> gone{false};         // the program gives it back
  mutable std::atomic<std::uint32_t> in_use{0};   // by us: see QueueUse
  std::atomic<bool> destroyed{false};    // the device takes nothing from its signals any more
  bool has_copied_doorbell = false;      // ROCr does not see what a kernel stores there: device_doorbells.cpp
  std::int64_t quiet_doorbell = 0;       // what it holds while no kernel has rung it
  std::atomic<bool> rung_by_device{false};
  std::atomic<bool> used{false};         // something was submitted to it
  bool marked = false;                   // callback only: the marker packet was sent
  Packet* scratch = nullptr;             // callback only: where a submission is rewritten, `size` + 16 packets
  PendingRing* pending = nullptr;        // profiling only
};

// While one lives, the runtime does not destroy the queue: the program's call waits. So nothing that holds one may wait
// for longer than a moment once the queue is gone. False: the program is about to destroy it, or has.
class QueueUse {
 public:
  explicit QueueUse(const Queue& queue) noexcept : m_queue(queue) {
    m_queue.in_use.fetch_add(1, std::memory_order_seq_cst);
    m_can_use = !m_queue.gone.load(std::memory_order_seq_cst);
  }
  QueueUse(const QueueUse&) = delete;
  QueueUse& operator=(const QueueUse&) = delete;
  ~QueueUse() { m_queue.in_use.fetch_sub(1, std::memory_order_seq_cst); }
  explicit operator bool() const noexcept { return m_can_use; }

 private:
  const Queue& m_queue;
  bool m_can_use;
};

// The interceptor: sees what is submitted to a queue (`data`) before the device does.
void on_packets(const void* packets, std::uint64_t count, std::uint64_t index, void* data,
                hsa_amd_queue_intercept_packet_writer writer) noexcept;

class Queues {
 public:
  hsa_status_t create(hsa_agent_t agent, std::uint32_t device, std::uint32_t size, hsa_queue_type32_t type,
                      ErrorCallback callback, void* data, std::uint32_t private_bytes, std::uint32_t group_bytes,
                      hsa_queue_t** queue) noexcept;
  // The same for a tool that makes an intercept queue itself, and sees what we leave of its packets.
  hsa_status_t create_intercepted(hsa_agent_t agent, std::uint32_t device, std::uint32_t size,
                                  hsa_queue_type32_t type, ErrorCallback callback, void* data,
                                  std::uint32_t private_bytes, std::uint32_t group_bytes,
                                  hsa_queue_t** queue) noexcept;
  // The program is about to destroy it: null where it is none of ours. Waits for those of us who use it.
  [[nodiscard]] Queue* forget(const hsa_queue_t* handle) noexcept;
  // One user of a cooperative queue fewer. False: it is no queue of that kind.
  [[nodiscard]] bool leave_cooperative(const hsa_queue_t* handle) noexcept;

  // All that the device may still take packets from. Queue objects are never freed: a late callback may still name one.
  [[nodiscard]] std::vector<Queue*> live() const;

  // Appends packets to a queue as one more producer. Waits for room, not longer than `limit_ms`. False: the program
  // gives the queue back.
  [[nodiscard]] core::Result<bool> append(Queue& queue, const Packet* packets, std::uint64_t count,
                                          std::uint64_t limit_ms) noexcept;

  // What the program is told of a queue's read index: see queues.cpp. `taken`: what the runtime would tell.
  [[nodiscard]] std::uint64_t read_index(const hsa_queue_t* handle, std::uint64_t taken) noexcept;

  // The program has the kernel by which OpenCL enqueues others.
  void expect_kernels_that_enqueue() noexcept { m_kernels_enqueue.store(true, std::memory_order_release); }
  // Such a kernel is about to go to the device. From a queue's callback.
  void watch_for_kernels() noexcept;
  // Whether kernels write packets into it, as far as can be told.
  [[nodiscard]] bool is_for_kernels(const Queue& queue) const noexcept;

  // The runtime is about to go: ends the thread. Bounded.
  void end() noexcept;

 private:
  // See device_doorbells.cpp. The first is called under the lock.
  void learn_doorbell(Queue& queue) noexcept;
  void watch_doorbells() noexcept;
  [[nodiscard]] bool ring_for_the_device() noexcept;

  // From here on none of us uses the queue, and nobody begins to. False: that was said before.
  bool give_up(Queue& queue) noexcept;

  // Becomes one of an intercept queue's interceptors. False: it is no intercept queue, or memory is short.
  bool watch(hsa_agent_t agent, std::uint32_t device, hsa_queue_type32_t type, hsa_queue_t* queue,
             hsa_queue_t* below = nullptr) noexcept;

  hsa_status_t create_cooperative(hsa_agent_t agent, std::uint32_t device, std::uint32_t size, ErrorCallback callback,
                                  void* data, std::uint32_t private_bytes, std::uint32_t group_bytes,
                                  hsa_queue_t** queue) noexcept;

  std::mutex m_cooperative_mutex;  // taken before the other
  mutable std::mutex m_mutex;
  std::vector<std::unique_ptr<Queue>> m_queues;
  QueueTable m_table;
  capture::Thread m_thread;
  std::atomic<bool> m_watching{false};
  std::atomic<bool> m_kernels_enqueue{false};
};

}  // namespace kerncap::hsa
