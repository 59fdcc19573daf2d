// Captures: what the queue callback starts, and the thread that carries it out while the dispatch is held.
//
// Four packets stand in the queue for a captured dispatch:
//   [barrier -> reached] [barrier after go] [the dispatch -> done] [barrier after resume -> left]
// The thread waits for `reached`, holds the other queues, copies the pre-state, sets `go`, waits for `done`,
// copies the post-state, completes the program's own signal, and sets `resume`. Every wait is bounded; when
// one ends badly everything is let go and the capture fails, not the program.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "capture/allocations.hpp"
#include "capture/protocol.hpp"
#include "capture/threads.hpp"
#include "core/result.hpp"
#include "hsa/copier.hpp"
#include "hsa/holder.hpp"
#include "hsa/kernels.hpp"
#include "hsa/packets.hpp"
#include "hsa/queues.hpp"
#include "hsa/state_copy.hpp"

namespace kerncap::hsa {

struct Job {
  std::uint64_t number = 0;                // from Copies::begin_capture
  Queue* queue = nullptr;
  Kernel kernel;
  hsa_kernel_dispatch_packet_t dispatch{}; // as the program submitted it
  std::uint64_t index_in_process = 0;
  std::uint64_t index_of_kernel = 0;
  std::uint32_t flags = 0;
  hsa_signal_t reached{};
  hsa_signal_t go{};
  hsa_signal_t done{};
  hsa_signal_t resume{};
  hsa_signal_t left{};
  bool owes_completion = false;            // the program's own signal was not completed yet
  std::chrono::steady_clock::time_point begun;
};

// Something the program freed while a capture still needed it.
struct SnapshotKeep {
  enum Kind { pool_memory, region_memory } kind;
  void* pointer;
};

class Snapshots {
 public:
  // Once a kernel that is wanted has been loaded: makes the copy path and the thread, before anything is held.
  void prepare() noexcept;

  // Called for every dispatch of a wanted kernel.
  [[nodiscard]] std::optional<std::uint64_t> match(const Kernel& kernel,
                                                   const hsa_kernel_dispatch_packet_t& dispatch) noexcept;
  // From the queue callback: fills the four packets. False: cannot be captured, the dispatch goes as it is.
  [[nodiscard]] bool begin(Queue& queue, const Kernel& kernel, const hsa_kernel_dispatch_packet_t& dispatch,
                           std::uint64_t index_in_process, std::uint64_t index_of_kernel, std::uint32_t flags,
                           std::array<Packet, 4>& packets) noexcept;
  void refuse(const Kernel& kernel, capture::FailureCode code, const char* reason) noexcept;
  void warn(const char* text) noexcept;

  // The program has made a queue: while a capture holds the others, it is held from its first packet on.
  void hold_too(Queue& queue) noexcept { m_holder.hold_too(queue); }

  // The program may be about to end: destroys signals that are done with, and waits a moment for those that soon are.
  void stop() noexcept;
  // The runtime is about to go: lets everything go, ends the thread, destroys what is ours of the runtime's. Bounded.
  void end() noexcept;

  // For hooks that take memory away: true if it is kept until the capture under way is over.
  [[nodiscard]] bool keep_until_idle(SnapshotKeep keep) noexcept;
  // The same for what cannot be put off; bounded.
  void wait_until_idle() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  void run() noexcept;
  [[nodiscard]] std::unique_ptr<Job> next_reached(bool& expired) noexcept;   // null: the runtime is about to go
  void carry_out(std::unique_ptr<Job> job, bool expired) noexcept;
  core::Result<void> take(Job& job) noexcept;
  core::Result<void> check_descriptor(const Job& job) noexcept;
  core::Result<std::vector<std::byte>> read_kernarg(const Job& job, const std::vector<capture::Allocation>& regions) noexcept;
  void describe(const Job& job, const std::vector<capture::Allocation>& regions, const std::vector<std::byte>& kernarg) noexcept;
  void give_back_signal(Job& job) noexcept;
  void release(Job& job) noexcept;
  bool tidy() noexcept;
  void close_window() noexcept;
  [[nodiscard]] Clock::time_point deadline() const noexcept;

  capture::Thread m_thread;
  Copier m_copier;
  Holder m_holder;
  bool m_ready = false;                     // set once, before any rule can match
  std::mutex m_prepare_mutex;

  std::mutex m_mutex;                       // guards all that follows
  std::condition_variable m_changed;
  std::deque<std::unique_ptr<Job>> m_jobs;
  std::vector<std::unique_ptr<Job>> m_leaving;   // over, but the device has not come to their last packet yet
  Clock::time_point m_last_end;             // of the last capture: those behind it have waited for us until then
  std::atomic<bool> m_window{false};        // between the list of regions and the end of the post-state
  std::vector<SnapshotKeep> m_kept;
  bool m_broken = false;                    // the copy path hangs: no more captures
};

}  // namespace kerncap::hsa
