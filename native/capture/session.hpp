// Captures of a device whose dispatches wait in its own queues: a queue of dispatches, a thread, and for each the course
// of a capture (course.hpp) with the kernel in its middle:
//
//   reached -> hold -> before -> go -> kernel ended -> after -> release -> leave
//
// Whatever ends badly leads to release at once: the capture fails, the program goes on. A dispatch whose kernel has not
// ended by then is looked at until it has, beside the captures behind it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "capture/course.hpp"
#include "capture/deferred_calls.hpp"
#include "capture/device.hpp"

namespace kerncap::capture {

// The last packets of a capture are passed within microseconds of its end, unless a kernel hangs.
inline constexpr Limit k_settle_limit{100};

class Session {
 public:
  struct Settings {
    Limit wait_limit{60'000};           // of each wait
    bool with_post = true;
    std::uint64_t first_number = 0;     // of a capture: none comes twice in a process
  };

  // A call of the program's, while it is made. One that could wait no longer has made the capture under way fail.
  class Call {
   public:
    Call() = default;
    explicit Call(Course& overtaken) noexcept : m_overtaken(&overtaken) { overtaken.begin_overtaking(); }
    Call(Call&& other) noexcept : m_overtaken(std::exchange(other.m_overtaken, nullptr)) {}
    Call& operator=(Call&& other) noexcept { return std::swap(m_overtaken, other.m_overtaken), *this; }
    ~Call() { if (m_overtaken != nullptr) m_overtaken->end_overtaking(); }

   private:
    Course* m_overtaken = nullptr;
  };

  Session(QueuedDevice& device, Listener& listener, const Settings& settings) noexcept
      : m_device(device), m_listener(listener), m_settings(settings),
        m_course(device, listener, {settings.wait_limit, settings.with_post}), m_deferred(settings.first_number) {}

  // Any thread, the runtime's callbacks too: never waits. False: the session ends, the dispatch stays the caller's.
  bool add(std::unique_ptr<Dispatch>& dispatch) noexcept;

  // The session's thread: returns after end().
  void run() noexcept;

  // For calls that take memory away. True: it is kept, and `free` called when the window closes.
  [[nodiscard]] bool keep_until_idle(void* memory, void (*free)(void*)) noexcept;
  // The same for what cannot be put off: returns when this window is closed. After twice the limit the capture fails, and
  // this returns once its copies have ended, or after the limit. Forget the memory before: a later window does not have it
  // in its list then. Make the call while what is returned lives.
  [[nodiscard]] Call wait_until_idle() noexcept;
  // For an allocation that found no room: waits until what was kept by now has been given back, at most as wait_until_idle().
  // True: something was, since given_back() returned that.
  [[nodiscard]] bool wait_for_kept(std::uint64_t given_back_before) noexcept;
  // How long calls of the program's wait for a capture.
  [[nodiscard]] Limit patience() const noexcept { return 2 * m_settings.wait_limit; }
  [[nodiscard]] std::uint64_t given_back() const noexcept { return m_given_back.load(std::memory_order_relaxed); }
  // Asynchronous copies of the program, from the moment a dispatch is added until its capture is over. True: kept.
  [[nodiscard]] bool defer(DeferredCalls::Call call) noexcept { return m_deferred.defer(std::move(call)); }
  // The same for synchronous ones: returns when it is their turn, or as wait_until_idle().
  [[nodiscard]] Call wait_for_turn() noexcept;

  // The program begins to end: gives a moment to what is about to leave. Nothing is forgotten.
  void settle(Limit limit) noexcept;
  // Every wait ends, no capture begins.
  void begin_end() noexcept;
  // The runtime is about to go: everything is let go. False: the session's thread is late, and finds that all is gone
  // when it goes on; then nothing of the device's was touched here.
  [[nodiscard]] bool end(Limit limit) noexcept;
  [[nodiscard]] bool ends() const noexcept { return m_ends.load(std::memory_order_seq_cst); }
  // In a forked child, which has none of our threads: calls pass through from now on. Async-signal-safe.
  void abandon_in_child() noexcept;

  // No more memory may be read for the capture under way: it has failed.
  [[nodiscard]] bool is_overtaken() const noexcept { return m_course.is_overtaken(); }
  // A copy has not come to its end: nothing more is captured.
  [[nodiscard]] bool is_broken() const noexcept { return m_course.is_broken(); }
  [[nodiscard]] std::uint64_t next_number() const noexcept { return m_deferred.begun(); }

 private:
  struct Kept {
    void* memory;
    void (*free)(void*);
  };
  [[nodiscard]] std::unique_ptr<Dispatch> next(bool& reached) noexcept;   // null: the session ends
  void carry_out(std::unique_ptr<Dispatch> dispatch, bool reached) noexcept;
  [[nodiscard]] core::Result<void> take(Dispatch& dispatch) noexcept;
  [[nodiscard]] core::Result<void> run_kernel(Dispatch& dispatch) noexcept;
  [[nodiscard]] std::vector<const Dispatch*> stopped() noexcept;
  void let_go(Dispatch& dispatch) noexcept;
  void complete_if_ended(Dispatch& dispatch, const Progress& progress) noexcept;
  bool tidy() noexcept;   // under the lock; true: nothing is left
  void close_window() noexcept;
  // Until the predicate holds: for patience(), then as one who overtakes the capture.
  template <typename IsOver>
  [[nodiscard]] Call wait_or_overtake(std::unique_lock<std::mutex>& lock, IsOver is_over) noexcept {
    if (m_changed.wait_for(lock, patience(), is_over)) return {};
    Call call(m_course);
    m_changed.wait_for(lock, m_settings.wait_limit, is_over);
    return call;
  }

  QueuedDevice& m_device;
  Listener& m_listener;
  const Settings m_settings;
  Course m_course;
  DeferredCalls m_deferred;
  std::atomic<bool> m_ends{false};
  std::atomic<bool> m_gone{false};          // nothing of the device's may be touched any more
  std::atomic<bool> m_window{false};        // from the list of memory to the end of the post-state
  std::mutex m_mutex;                       // guards all that follows
  std::condition_variable m_changed;
  std::deque<std::unique_ptr<Dispatch>> m_waiting;
  std::vector<std::unique_ptr<Dispatch>> m_leaving;   // over, but the device has not passed their last packet yet
  std::vector<Kept> m_kept;
  std::uint64_t m_kept_in_all = 0;
  std::atomic<std::uint64_t> m_given_back{0};   // of these
  std::uint64_t m_windows_closed = 0;
  Clock::time_point m_last_end{};           // dispatches behind it have waited for us until then
  bool m_running = false;
};

}  // namespace kerncap::capture
