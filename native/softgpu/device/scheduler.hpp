// The threads that step queues: one runner for AQL, one for copies, so that a long copy does not hold up a dispatch.
//
// A runner that found nothing to do lingers a little, since programs often submit again at once; then it has the
// doorbells watched and sleeps until one rings or something of ours completes. Memory that a queue waits for may be
// written by the host, which tells nobody: such queues are polled, ever more seldom, down to once a millisecond.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "softgpu/device/doorbell_watch.hpp"
#include "softgpu/device/queue.hpp"

namespace kerncap::softgpu {

class Runner {
 public:
  explicit Runner(DoorbellWatch& doorbells) noexcept : m_doorbells(doorbells) {}

  void add(std::shared_ptr<Queue> queue);
  // When it returns, the queue is not being stepped and will not be.
  void remove(const Queue* queue);
  void wake() noexcept;

 private:
  void run();
  [[nodiscard]] Queue::Progress step_all();
  void sleep(std::uint32_t seen, std::uint64_t timeout_ns) noexcept;

  DoorbellWatch& m_doorbells;
  std::mutex m_mutex;
  std::vector<std::shared_ptr<Queue>> m_queues;
  bool m_started = false;
  std::atomic<std::uint32_t> m_wakes{0};  // a futex
  std::atomic<bool> m_asleep{false};
};

class Scheduler {
 public:
  Scheduler();

  void add(std::shared_ptr<Queue> queue, bool copies);
  void remove(const Queue* queue);
  void wake() noexcept;
  [[nodiscard]] DoorbellWatch& doorbells() noexcept { return m_doorbells; }

 private:
  DoorbellWatch m_doorbells;
  Runner m_kernels, m_copies;
};

}  // namespace kerncap::softgpu
