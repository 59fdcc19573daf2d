// Notices a store to a doorbell without polling: while all queues rest, the doorbell pages are write-protected with
// userfaultfd. The storing thread stops for a moment, a thread of ours lifts the protection and wakes the runners, and
// the store happens. The program sees nothing of it, no signal handler is involved.
//
// The store itself happens a moment after the wake. And a program that rings again at once, or whose other queues are
// busy, would stop again each time. So nothing is watched for a while after a store, or after a runner's work.
//
// Where userfaultfd is not to be had (some containers forbid it), arm() says so and the runners poll. So they do once the
// program has closed its descriptor, as programs do that close all: Linux lifts the protection then.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "core/unique_fd.hpp"

namespace kerncap::softgpu {

class DoorbellWatch {
 public:
  explicit DoorbellWatch(std::function<void()> rung);

  // A program's mapping of a doorbell page; must be mapped already.
  void add(std::uint64_t va, std::uint64_t size_bytes);
  void remove(std::uint64_t va);

  // armed: a store to any doorbell from now on calls `rung`. The caller looks at the doorbells once more, since stores
  // up to now do not. busy: not yet. impossible: nothing can be watched.
  enum class Watch : std::uint8_t { armed, busy, impossible };
  [[nodiscard]] Watch arm(std::uint64_t now_ns);
  // A runner worked at this time of CLOCK_MONOTONIC.
  void note_work(std::uint64_t now_ns) noexcept { m_busy_ns.store(now_ns, std::memory_order_relaxed); }

 private:
  struct Page {
    std::uint64_t va, size_bytes;
    bool armed;
  };
  void run();
  [[nodiscard]] bool owns_descriptor() const noexcept;
  void give_up();
  [[nodiscard]] bool protect(const Page& page, bool on) noexcept;

  std::function<void()> m_rung;
  std::atomic<std::uint64_t> m_busy_ns{0};  // when a runner worked, or a doorbell rang
  core::UniqueFd m_fd;
  std::uint64_t m_inode = 0;                // of m_fd: the program may close that, and open something of its own under its number
  std::mutex m_mutex;
  std::vector<Page> m_pages;
};

}  // namespace kerncap::softgpu
