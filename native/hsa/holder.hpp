// Keeps the other queues still while a snapshot is taken.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/result.hpp"
#include "hsa/hsa_headers.hpp"
#include "hsa/queues.hpp"

namespace kerncap::hsa {

class Holder {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Puts two barriers into every queue but `target`: one that tells that all before it is done, one that
  // holds all behind it until `resume` is zero. Returns when each queue stands still: its first barrier was
  // reached, or it is blocked on a condition that cannot come true while we hold, or it is itself stopped in
  // front of another capture's dispatch (`stopped`: queues for which that is known).
  core::Result<void> hold(const Queue& target, hsa_signal_t resume, const std::vector<const Queue*>& stopped,
                          Deadline deadline) noexcept;

  // A queue that was just made, and of which the program does not know yet: held like the others of the capture under
  // way, if there is one. From the thread that made it.
  void hold_too(Queue& queue) noexcept;

  // The queues that were only blocked are blocked still, those left alone are as they were, and all that were made
  // since are held: nothing slipped past while we copied. Of a queue that the program has destroyed nobody can say.
  [[nodiscard]] bool still_held() noexcept;

  // The capture of `resume` is over. Its signals are destroyed by a later `tidy`, once no queue needs them.
  void let_go(hsa_signal_t resume) noexcept;
  bool tidy() noexcept;   // true: nothing is left

 private:
  struct Held {
    Queue* queue;
    hsa_signal_t drained;
    hsa_signal_t passed;
    std::uint64_t blocked_at;           // the device's read index while blocked, or k_not_blocked
  };
  // A queue that kernels write to: they count its places by themselves, and a packet of ours would take one of theirs.
  // What they write comes behind work of queues that are held.
  struct LeftAlone {
    const Queue* queue;
    std::uint64_t write_index;
  };
  struct Spent {
    hsa_signal_t resume;
    std::vector<Held> held;
    bool over;
  };
  static constexpr std::uint64_t k_not_blocked = ~std::uint64_t{0};
  core::Result<void> hold_one(Queue& queue) noexcept;
  [[nodiscard]] bool all_at_rest(bool blocked_is_enough, bool& moved) noexcept;
  void put_away() noexcept;   // under the lock
  void forget(hsa_signal_t drained) noexcept;

  // Never taken by who appends to a queue: that comes to its callback, and from there to locks under which we are
  // called.
  std::mutex m_mutex;
  hsa_signal_t m_resume{};
  std::vector<Held> m_held;             // of the capture under way; before its packets are there
  std::vector<LeftAlone> m_left_alone;  // likewise
  bool m_slipped = false;               // likewise: a queue that was made since could not be held
  std::vector<Spent> m_spent;
};

}  // namespace kerncap::hsa
