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

  // The queues that were only blocked are blocked still, and those left alone are as they were: nothing slipped past
  // while we copied.
  [[nodiscard]] bool still_held() const noexcept;

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
  void put_away() noexcept;

  hsa_signal_t m_resume{};
  std::vector<Held> m_held;             // of the capture under way
  std::vector<LeftAlone> m_left_alone;  // likewise
  std::mutex m_mutex;
  std::vector<Spent> m_spent;
};

}  // namespace kerncap::hsa
