// The program's own copies and fills. They run on engines that we do not see, in the order of submission: one
// that waits for a held kernel would block ours behind it. So from the moment a target is submitted until its
// capture is over they are kept, and issued afterwards in the same order.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>

namespace kerncap::capture {

// Which captures are under way, and which deferred calls wait for which: a call waits for the captures that
// were begun before it, never for later ones (those may wait for the call). Plain book-keeping, tested alone.
class CaptureOrder {
 public:
  explicit CaptureOrder(std::uint64_t first = 0) : m_next(first) {}

  // Returns the capture's number; numbers ascend.
  std::uint64_t begin() {
    m_open.insert(m_open.end(), m_next);
    return m_next++;
  }
  void end(std::uint64_t number) { m_open.erase(number); }
  [[nodiscard]] std::uint64_t now() const { return m_next; }
  // All captures begun before `moment` are over.
  [[nodiscard]] bool passed(std::uint64_t moment) const { return m_open.empty() || *m_open.begin() >= moment; }
  [[nodiscard]] bool idle() const { return m_open.empty(); }

 private:
  std::uint64_t m_next;
  std::set<std::uint64_t> m_open;
};

class DeferredCalls {
 public:
  using Call = std::function<void()>;

  // `first`: the number of the first capture. The collector knows captures by their numbers: none comes twice.
  explicit DeferredCalls(std::uint64_t first) : m_order(first) {}

  [[nodiscard]] std::uint64_t begin_capture() noexcept;
  void end_capture(std::uint64_t number) noexcept;      // issues what waited for it
  [[nodiscard]] std::uint64_t begun() const noexcept;   // the number of the next capture

  // True: the call was kept. It may be made on any thread.
  [[nodiscard]] bool defer(Call call) noexcept;
  // For calls that are synchronous: returns when it is their turn, or after the limit: false.
  bool wait_for_turn(std::chrono::milliseconds limit) noexcept;

 private:
  struct Deferred {
    std::uint64_t moment;
    Call call;
  };
  void issue(std::unique_lock<std::mutex>& lock) noexcept;

  std::atomic<std::uint32_t> m_busy{0};              // captures under way + deferred calls: 0 = nothing to do
  mutable std::mutex m_mutex;
  std::condition_variable m_changed;
  CaptureOrder m_order;
  std::deque<Deferred> m_deferred;
  bool m_issuing = false;
};

}  // namespace kerncap::capture
