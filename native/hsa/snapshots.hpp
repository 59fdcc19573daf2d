// What a capture does through ROCr. `capture::Session` says when; the queue callback hands it dispatches.
//
// Four packets stand in the queue for a captured dispatch:
//   [barrier -> reached] [barrier after go] [the dispatch -> done] [barrier after resume -> left]
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "capture/collector.hpp"
#include "capture/session.hpp"
#include "capture/threads.hpp"
#include "core/result.hpp"
#include "hsa/copier.hpp"
#include "hsa/holder.hpp"
#include "hsa/kernels.hpp"
#include "hsa/packets.hpp"
#include "hsa/queues.hpp"
#include "hsa/state_copy.hpp"

namespace kerncap::hsa {

struct Job : capture::Dispatch {
  Queue* queue = nullptr;
  Kernel kernel;
  hsa_kernel_dispatch_packet_t packet{};   // as the program submitted it
  std::uint64_t index_in_process = 0;
  std::uint64_t index_of_kernel = 0;
  std::uint32_t flags = 0;
  hsa_signal_t reached{};
  hsa_signal_t go{};
  hsa_signal_t done{};
  hsa_signal_t resume{};
  hsa_signal_t left{};
  std::optional<StateCopy> state;          // while it is captured
};

class Snapshots final : private capture::QueuedDevice {
 public:
  Snapshots(capture::Channel& channel, std::uint64_t first_number) noexcept
      : m_collector(channel),
        m_session(*this, m_collector, {channel.wait_limit(), channel.with_post(), first_number}),
        m_copier(channel) {}

  // Once a kernel that is wanted has been loaded: makes the copy path and the thread, before anything is held.
  void prepare() noexcept;

  // Called for every dispatch of a wanted kernel.
  [[nodiscard]] std::optional<std::uint64_t> match(const Kernel& kernel,
                                                   const hsa_kernel_dispatch_packet_t& dispatch) noexcept;
  // From the queue callback: fills the four packets. False: cannot be captured, the dispatch goes as it is.
  [[nodiscard]] bool begin(Queue& queue, const Kernel& kernel, const hsa_kernel_dispatch_packet_t& dispatch,
                           std::uint64_t index_in_process, std::uint64_t index_of_kernel, std::uint32_t flags,
                           std::array<Packet, 4>& packets) noexcept;
  void refuse(capture::FailureCode code, const char* reason) noexcept;
  void warn(const char* text) noexcept;

  // The program has made a queue: while a capture holds the others, it is held from its first packet on.
  void hold_too(Queue& queue) noexcept { m_holder.hold_too(queue); }
  // The runtime is about to go: lets everything go, ends the thread, destroys what is ours of the runtime's. Bounded.
  void end() noexcept;
  // For hooks, the end of the program, and forks.
  [[nodiscard]] capture::Session& session() noexcept { return m_session; }

 private:
  capture::Progress look(const capture::Dispatch& dispatch) noexcept override;
  core::Result<void> hold(capture::Dispatch& dispatch, const std::vector<const capture::Dispatch*>& stopped,
                          capture::Limit limit) noexcept override;
  core::Result<void> drain(capture::Dispatch& dispatch, capture::Limit limit) noexcept override;
  core::Result<void> describe(capture::Dispatch& dispatch, capture::Limit limit) noexcept override;
  core::Result<std::uint64_t> copy(capture::Dispatch& dispatch, capture::State state,
                                   capture::Limit limit) noexcept override;
  core::Result<void> undisturbed(const capture::Dispatch&, capture::State state) noexcept override;
  void go(capture::Dispatch& dispatch) noexcept override;
  std::uint64_t duration_ns(const capture::Dispatch& dispatch) noexcept override;
  void complete(capture::Dispatch& dispatch) noexcept override;
  void release(capture::Dispatch& dispatch) noexcept override;
  void give_back(capture::Dispatch& dispatch) noexcept override;
  bool at_rest() noexcept override { return m_holder.tidy(); }
  core::Result<void> check_descriptor(const Job& job, capture::Limit limit) noexcept;
  core::Result<std::vector<std::byte>> read_kernarg(const Job& job, const std::vector<capture::Allocation>& regions,
                                                    capture::Limit limit) noexcept;

  capture::Collector m_collector;
  capture::Session m_session;
  capture::Thread m_thread;
  Copier m_copier;
  Holder m_holder;
  bool m_ready = false;                     // set once, before any rule can match
  bool m_failed = false;                    // there is no copy path
  std::mutex m_prepare_mutex;
};

}  // namespace kerncap::hsa
