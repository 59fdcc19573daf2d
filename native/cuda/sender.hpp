// What was copied on the device goes to the collector by a thread of ours, while the program goes on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "capture/collector.hpp"
#include "cuda/job.hpp"
#include "cuda/own_process.hpp"

namespace kerncap::cuda {

class Sender {
 public:
  Sender(OwnProcess& own, capture::Collector& collector) noexcept : m_own(own), m_collector(collector) {}

  // A dispatch is about to be counted, which may be wanted. One of the next three has to follow.
  void begin() noexcept { m_begun.fetch_add(1); }
  void not_wanted() noexcept { m_begun.fetch_sub(1); }
  void take(std::unique_ptr<Job> job) noexcept;
  // It has not been captured. It may have been the last.
  void dismiss() noexcept;

  // Something lies on the device that the collector does not have yet. Safe in signal handlers.
  [[nodiscard]] bool is_sending() const noexcept;
  // Before the program tears its contexts down, or ends: until what was taken has been handed over.
  void finish() noexcept;
  // Before the program allocates: our copies on the device leave it where it would not find enough.
  void make_room(std::uint64_t bytes) noexcept;

  // Gives back what a capture made on the device. `last`: what copied last from or to it, on this thread.
  static void release(Job& job, Copier& last) noexcept;

 private:
  [[nodiscard]] bool start_thread() noexcept;
  void run() noexcept;
  void deliver(std::unique_ptr<Job> job) noexcept;
  [[nodiscard]] static bool all_taken() noexcept;
  [[nodiscard]] bool is_idle() noexcept;

  OwnProcess& m_own;
  capture::Collector& m_collector;
  std::mutex m_mutex;                        // guards the next three
  std::deque<std::unique_ptr<Job>> m_taken;
  bool m_has_started = false;
  bool m_has_dismissed = false;
  std::condition_variable m_changed;
  std::atomic<std::size_t> m_unsent{0};      // written with m_mutex held
  std::atomic<std::uint32_t> m_begun{0};     // dispatches between begin() and what follows it
};

}  // namespace kerncap::cuda
