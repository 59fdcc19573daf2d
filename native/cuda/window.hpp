// The time in which a dispatch is captured, on the thread that launches: other threads' calls wait for its end.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "core/result.hpp"
#include "cuda/calls_under_way.hpp"
#include "cuda/own_process.hpp"
#include "cuda/sender.hpp"

namespace kerncap::cuda {

class Window {
 public:
  Window(OwnProcess& own, Sender& sender) noexcept : m_own(own), m_sender(sender) {}

  // Until no other thread captures. close() has to follow; all that is between is of this thread.
  void wait_for_turn() noexcept;
  void open() noexcept;
  void close() noexcept;
  // Drains the device, and waits for calls that were under way when the window opened.
  core::Result<void> settle(std::uint32_t device) noexcept;
  // Whether all other threads have waited since the window opened. Asked once what they might change has been read.
  core::Result<void> was_undisturbed() const noexcept;
  // A launch of another thread's that may wait for another device was not waited for.
  [[nodiscard]] bool has_stuck() const noexcept { return m_has_stuck; }
  // Between both, what is done to the program's memory is undone before any other thread goes on. An error where one has already.
  core::Result<void> begin_undoing() noexcept;
  void end_undoing() noexcept;

  // Other threads' calls.
  // Waits while the window is open, bounded. False: that took too long, and what is captured fails.
  bool stand_aside() noexcept;
  // Around each call: no state is taken while one is under way on another thread that is counted. One that ends a context begins once
  // nothing lies on the device that the collector does not have.
  void begin_call(UnderWay what) noexcept;
  void end_call(CUcontext context) noexcept;

 private:
  void begin_counted(std::atomic<std::uint32_t>& kind) noexcept;
  void let_copies_end() noexcept;
  void begin_end_of_context() noexcept;
  static void step_in(std::atomic<std::uint32_t>& kind) noexcept;
  static void step_out() noexcept;
  [[nodiscard]] static std::chrono::milliseconds waits_at_most() noexcept;

  OwnProcess& m_own;
  Sender& m_sender;
  std::mutex m_turn;                         // held until close(); guards the next one
  bool m_has_stuck = false;
  std::mutex m_mutex;                        // guards the next three
  bool m_is_undoing = false;
  std::size_t m_waiters = 0;
  std::chrono::steady_clock::time_point m_passed_at{};
  std::condition_variable m_changed;
  std::atomic<bool> m_passed{false};         // a thread has waited in vain for the window to close
  std::atomic<bool> m_is_settled{false};     // since then no other thread submits anything, but those that m_has_stuck
  std::atomic<std::uint32_t> m_device{0};    // whose state is taken
  std::atomic<bool> m_was_late{false};       // one of these has gone on since
};

}  // namespace kerncap::cuda
