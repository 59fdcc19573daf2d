// The course of one capture, for every GPU. It has no thread and no queue of its own: who has them calls its parts, and
// lets the kernel run between before() and after().
//
//   hold():    hold -> drain
//   before():  describe -> pre -> undisturbed? (-> ready, where no post-state is wanted)
//   after():   post -> undisturbed? -> finish()
//   finish():  hand over -> done
//
// Whatever ends badly is the answer at once, and no later step is made: the caller releases what is held, and tells the
// listener of the failure.
#pragma once

#include <atomic>
#include <vector>

#include "capture/device.hpp"

namespace kerncap::capture {

class Course {
 public:
  struct Settings {
    Limit wait_limit{60'000};           // of each wait
    bool with_post = true;
  };

  Course(Device& device, Listener& listener, const Settings& settings) noexcept
      : m_device(device), m_listener(listener), m_settings(settings) {}

  // From here on memory must stay: who keeps it does so when this returns.
  core::Result<void> hold(Dispatch& dispatch, const std::vector<const Dispatch*>& stopped) noexcept;
  core::Result<void> before(Dispatch& dispatch) noexcept;
  core::Result<void> after(Dispatch& dispatch) noexcept;
  core::Result<void> finish(Dispatch& dispatch) noexcept;

  // A call of the program's that takes memory away, or changes it, can wait for the capture no longer: the capture fails,
  // and so does each that begins before end_overtaking(). From any thread.
  void begin_overtaking() noexcept {
    m_overtaking.fetch_add(1, std::memory_order_seq_cst);
    m_overtaken.store(true, std::memory_order_seq_cst);
  }
  void end_overtaking() noexcept { m_overtaking.fetch_sub(1, std::memory_order_seq_cst); }
  [[nodiscard]] bool is_overtaken() const noexcept { return m_overtaken.load(std::memory_order_seq_cst); }

  // A copy has not come to its end: the way on which it went may be blocked for ever.
  [[nodiscard]] bool is_broken() const noexcept { return m_broken.load(std::memory_order_relaxed); }

 private:
  core::Result<void> copy(Dispatch& dispatch, State state) noexcept;

  Device& m_device;
  Listener& m_listener;
  const Settings m_settings;
  std::atomic<bool> m_broken{false};
  std::atomic<int> m_overtaking{0};     // calls
  std::atomic<bool> m_overtaken{false}; // this capture was
};

}  // namespace kerncap::capture
