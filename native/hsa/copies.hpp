// The program's own copies and fills. They run on engines that we do not see, in the order of submission: one
// that waits for a held kernel would block ours behind it. So from the moment a target is submitted until its
// capture is over they are kept, and issued afterwards in the same order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

#include "core/result.hpp"
#include "hsa/hsa_headers.hpp"

namespace kerncap::hsa {

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

class Copies {
 public:
  using Call = std::function<hsa_status_t()>;

  // `first`: the number of the first capture. The collector knows captures by their numbers: none comes twice.
  explicit Copies(std::uint64_t first) : m_order(first) {}

  [[nodiscard]] std::uint64_t begin_capture() noexcept;
  void end_capture(std::uint64_t number) noexcept;   // issues what waited for it
  [[nodiscard]] std::uint64_t begun() const noexcept;   // the number of the next capture

  // True: the call was kept. `complete` is completed on its behalf if it fails later.
  [[nodiscard]] bool defer(Call call, hsa_signal_t complete) noexcept;
  // For calls that are synchronous: returns when it is their turn, or after the limit.
  void wait_for_turn() noexcept;

  // Remembers which engines the program uses.
  struct Route {
    std::uint64_t to;
    std::uint64_t from;
    std::uint32_t engine;                            // 0: the runtime's choice
    auto operator<=>(const Route&) const = default;
  };
  void note(const Route& route) noexcept;
  [[nodiscard]] std::vector<Route> routes() const;

 private:
  struct Deferred {
    std::uint64_t moment;
    Call call;
    hsa_signal_t complete;
  };
  void issue(std::unique_lock<std::mutex>& lock) noexcept;

  std::atomic<std::uint32_t> m_busy{0};              // captures under way + deferred calls: 0 = nothing to do
  mutable std::mutex m_mutex;
  std::condition_variable m_changed;
  CaptureOrder m_order;
  std::deque<Deferred> m_deferred;
  bool m_issuing = false;
  std::set<Route> m_routes;
};

}  // namespace kerncap::hsa
