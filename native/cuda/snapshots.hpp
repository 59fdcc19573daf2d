// Takes the state before and after a launch, on the thread that launches: the launch waits in its callback, and
// `capture::Course` says what is done.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "capture/collector.hpp"
#include "capture/course.hpp"
#include "core/result.hpp"
#include "cuda/job.hpp"
#include "cuda/own_process.hpp"
#include "cuda/reach.hpp"
#include "cuda/sender.hpp"
#include "cuda/window.hpp"

namespace kerncap::cuda {

// Why a kernel is refused that is not certain.
inline constexpr const char* k_one_of_several =
    "the program has loaded several modules that hold a kernel of this name, and the driver does not tell which of them this one is "
    "of: give one of the kernels another name";

class Snapshots final : private capture::Device {
 public:
  Snapshots(OwnProcess& own, capture::Channel& channel) noexcept
      : m_own(own), m_collector(channel), m_course(*this, m_collector, {channel.wait_limit(), channel.with_post()}),
        m_sender(own, m_collector), m_window(own, m_sender) {}

  // At a launch's entry. The dispatch's number among those that the rule saw decides whether it is taken; if so, the
  // pre-state is, and every other thread's calls wait until leave(). `counted`: for uncount(), where the launch counts.
  void enter(const Kernel& kernel, const LaunchCall& launch, CUcontext context, std::uint64_t& counted) noexcept;
  // At its exit, on the same thread. `status` is what the launch returned.
  void leave(CUresult status) noexcept;
  // At the exit of a launch that failed, before leave(): it is no dispatch. `counted`: as enter() set it, or 0.
  void uncount(std::uint64_t counted) noexcept;
  // At the entry of cuGraphLaunch, for every kernel of the graph that is wanted.
  void enter_graph(CUgraphExec executable, CUstream stream, CUcontext context) noexcept;
  // This thread is between enter() and leave().
  [[nodiscard]] bool holding() const noexcept;
  void count() noexcept { m_own.launches.fetch_add(1, std::memory_order_relaxed); }
  // The context is going, and with it what we made in it.
  void forget(CUcontext context) noexcept;

  [[nodiscard]] Sender& sender() noexcept { return m_sender; }
  [[nodiscard]] Window& window() noexcept { return m_window; }

 private:
  // The steps of the course; their limits are wait_deadline()'s.
  core::Result<void> hold(capture::Dispatch& dispatch, const std::vector<const capture::Dispatch*>& stopped,
                          capture::Limit limit) noexcept override;
  core::Result<void> drain(capture::Dispatch& dispatch, capture::Limit limit) noexcept override;
  core::Result<void> describe(capture::Dispatch& dispatch, capture::Limit limit) noexcept override;
  core::Result<std::uint64_t> copy(capture::Dispatch& dispatch, capture::State state,
                                   capture::Limit limit) noexcept override;
  core::Result<void> undisturbed(const capture::Dispatch& dispatch, capture::State state) noexcept override;
  std::uint64_t duration_ns(const capture::Dispatch& dispatch) noexcept override;
  core::Result<bool> hand_over(capture::Dispatch& dispatch) noexcept override;

  // When it is, end() or refuse() has to follow. `number`: of the dispatch, where it counts.
  [[nodiscard]] bool wanted(const Kernel& kernel, const LaunchCall& launch, std::optional<std::uint64_t>& number) noexcept;
  void refuse(const std::string& reason) noexcept;
  void begin(Job& job) noexcept;             // waits for its turn
  void end(std::unique_ptr<Job> job, const core::Result<void>& taken) noexcept;
  // Between before() and after(). `status` is what the launch returned.
  core::Result<void> wait_for_kernel(Job& job, CUresult status) noexcept;
  core::Result<void> tell_of(const Job& job) noexcept;
  core::Result<void> take_from_graph(Job& job) noexcept;
  // A node, or the kernel itself, may wait for what the program does once it has launched the graph.
  core::Result<void> run_to_kernel(Job& job) noexcept;
  [[nodiscard]] std::shared_ptr<Engines> engines_of(CUcontext context) noexcept;

  OwnProcess& m_own;
  capture::Collector m_collector;
  capture::Course m_course;
  Sender m_sender;
  Window m_window;
  std::uint64_t m_next_number = 1;           // of the thread that holds the window, as the next one
  Reach m_reach;
  std::mutex m_engines_mutex;                // guards the next one
  std::map<CUcontext, std::shared_ptr<Engines>> m_engines;
};

}  // namespace kerncap::cuda
