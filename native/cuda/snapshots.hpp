// Takes the state before and after a launch, on the thread that launches: the launch waits in its callback, and
// `capture::Course` says what is done.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "capture/collector.hpp"
#include "capture/course.hpp"
#include "capture/protocol.hpp"
#include "core/result.hpp"
#include "cuda/allocations.hpp"
#include "cuda/calls_under_way.hpp"
#include "cuda/changed.hpp"
#include "cuda/copier.hpp"
#include "cuda/graphs.hpp"
#include "cuda/launch.hpp"
#include "cuda/own_process.hpp"

namespace kerncap::cuda {

// Why a kernel is refused that is not certain.
inline constexpr const char* k_one_of_several =
    "the program has loaded several modules that hold a kernel of this name, and the driver does not tell which of them this one is "
    "of: give one of the kernels another name";

// Streams, events and our kernel belong to a context: each has its own.
struct Engines {
  OwnMemory memory;
  Copier copier{memory};                     // for the thread that holds the window
  Changed changed;
  Copier sender{memory};                     // for our own thread
};

// Of a kernel in a graph: what is run before it.
struct FromGraph {
  const WatchedGraph* graph = nullptr;
  std::size_t node = 0;
  CUgraphExec before = nullptr;
};

// One capture on its way.
struct Job : capture::Dispatch {
  Kernel kernel;
  CUcontext context = nullptr;
  std::shared_ptr<Engines> engines;          // of the context
  std::uint32_t device = 0;
  CUstream stream = nullptr;
  const LaunchCall* launch = nullptr;        // until its kernel runs
  std::uint64_t index_of_kernel = 0;
  std::vector<std::byte> parameters;         // as the kernel sees them
  std::vector<Allocation> regions;           // cost.copied_bytes in all
  // Copy of all regions on the device, laid out as Copier::layout() says; 0 where they went to the collector at once.
  CUdeviceptr pre = 0;
  // What the kernel changed: copies of those chunks, one behind the other. `changed` has a word a chunk, region after
  // region; empty: nothing was compared, and there is no post-state here.
  CUdeviceptr post = 0;
  std::vector<std::uint32_t> changed;
  CUevent before = nullptr;
  CUevent after = nullptr;
  std::optional<FromGraph> from_graph;
  bool is_sent = false;                      // the collector has all of it
};

class Snapshots final : private capture::Device {
 public:
  Snapshots(OwnProcess& own, capture::Channel& channel) noexcept
      : m_own(own), m_collector(channel), m_course(*this, m_collector, {channel.wait_limit(), channel.with_post()}) {}
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
  // Other threads' calls, while a launch is held: waits, bounded. False: that took too long, and what is captured fails.
  bool stand_aside() noexcept;
  // Around each call: no state is taken while one is under way on another thread that is counted. One that ends a context begins once
  // nothing lies on the device that the collector does not have.
  void begin_call(UnderWay what) noexcept;
  void end_call(CUcontext context) noexcept;
  // Before the program allocates: our copies on the device leave it where it would not find enough.
  void make_room(std::uint64_t bytes) noexcept;
  // Before the program tears its contexts down, or ends: until what was taken has been handed over.
  void finish() noexcept;
  // Something lies on the device that the collector does not have yet. Safe in signal handlers.
  [[nodiscard]] bool is_sending() const noexcept;
  // The context is going, and with it what we made in it.
  void forget(CUcontext context) noexcept;

 private:
  // When it is, end() has to follow. `number`: of the dispatch, where it counts.
  [[nodiscard]] bool wanted(const Kernel& kernel, const LaunchCall& launch, std::optional<std::uint64_t>& number) noexcept;
  // The steps of the course. What the limit is stands in wait_deadline() for all of this class.
  core::Result<void> hold(capture::Dispatch& dispatch, const std::vector<const capture::Dispatch*>& stopped,
                          capture::Limit limit) noexcept override;
  core::Result<void> drain(capture::Dispatch& dispatch, capture::Limit limit) noexcept override;
  core::Result<void> describe(capture::Dispatch& dispatch, capture::Limit limit) noexcept override;
  core::Result<std::uint64_t> copy(capture::Dispatch& dispatch, capture::State state,
                                   capture::Limit limit) noexcept override;
  core::Result<void> undisturbed(const capture::Dispatch& dispatch, capture::State state) noexcept override;
  std::uint64_t duration_ns(const capture::Dispatch& dispatch) noexcept override;
  core::Result<bool> hand_over(capture::Dispatch& dispatch) noexcept override;

  // Between before() and after(). `status` is what the launch returned.
  core::Result<void> wait_for_kernel(Job& job, CUresult status) noexcept;
  core::Result<void> take_from_graph(Job& job) noexcept;
  // A node, or the kernel itself, may wait for what the program does once it has launched the graph.
  core::Result<void> run_to_kernel(Job& job) noexcept;
  core::Result<void> run_alone(const LaunchCall& launch, CUstream stream) noexcept;
  [[nodiscard]] std::shared_ptr<Engines> engines_of(CUcontext context) noexcept;
  void begin(Job& job) noexcept;             // waits for its turn: end() has to follow
  void end(std::unique_ptr<Job> job, const core::Result<void>& taken) noexcept;
  void refuse(const std::string& reason) noexcept;   // instead of both
  [[nodiscard]] static std::chrono::steady_clock::time_point wait_deadline() noexcept;
  core::Result<void> list_regions(Job& job) noexcept;
  core::Result<void> wait_for_other_gpus(const Job& job) noexcept;
  core::Result<void> add_peers(Job& job) noexcept;
  void add_variables(Job& job) noexcept;
  // Drains the device, and waits for calls that were under way when the window opened.
  core::Result<void> settle(const Job& job) noexcept;
  [[nodiscard]] bool start_thread() noexcept;
  void deliver(std::unique_ptr<Job> job) noexcept;
  core::Result<void> refuse_unreachable(const Job& job) noexcept;
  core::Result<void> describe_to_collector(const Job& job) noexcept;
  [[nodiscard]] static core::Result<void> send_images(const Job& job) noexcept;
  void begin_counted(std::atomic<std::uint32_t>& kind) noexcept;
  void begin_end_of_context() noexcept;
  static void step_in(std::atomic<std::uint32_t>& kind) noexcept;
  static void step_out() noexcept;
  [[nodiscard]] static std::chrono::milliseconds waits_at_most() noexcept;
  // Whether all other threads have waited since the window opened. Asked once what they might change has been read.
  core::Result<void> was_undisturbed() const noexcept;
  // Between both, what is done to the program's memory is undone before any other thread goes on. An error where one has already.
  core::Result<void> begin_undoing() noexcept;
  void end_undoing() noexcept;
  void let_waiters_go_first() noexcept;
  void open_window() noexcept;
  void close_window() noexcept;
  void release(Job& job) noexcept;
  void pass_on(std::unique_ptr<Job> job) noexcept;   // to our thread
  // A dispatch that was wanted() has not been captured. It may have been the last.
  void dismiss() noexcept;
  [[nodiscard]] static bool all_taken() noexcept;
  [[nodiscard]] bool is_idle() noexcept;
  void run() noexcept;                       // the thread that sends what lies on the device
  // What lies on the device; what does not has been sent.
  core::Result<void> send(Copier& copier, Job& job) noexcept;
  // Straight from the program's memory, while everything is held.
  core::Result<void> send_live(Copier& copier, const Job& job, capture::StreamKind kind) noexcept;
  core::Result<void> send_pre(Copier& copier, const Job& job) noexcept;
  // `live`: the changed chunks are read from the program's memory, as there was no room for a copy.
  core::Result<void> send_post(Copier& copier, const Job& job, bool live) noexcept;
  core::Result<void> compare_states(Job& job) noexcept;
  core::Result<void> keep_changed(Job& job) noexcept;

  OwnProcess& m_own;
  capture::Collector m_collector;
  capture::Course m_course;
  std::map<CUcontext, std::shared_ptr<Engines>> m_engines;
  std::mutex m_window_mutex;                 // held from enter() to leave()
  std::mutex m_mutex;
  std::condition_variable m_changed;
  std::deque<std::unique_ptr<Job>> m_taken;
  std::atomic<std::size_t> m_unsent{0};      // written with m_mutex held
  std::atomic<bool> m_passed{false};         // a thread has waited in vain for the window to close
  std::atomic<bool> m_is_settled{false};     // since then no other thread submits anything, but those that m_has_stuck
  std::atomic<std::uint32_t> m_device{0};    // whose state is taken
  std::atomic<bool> m_was_late{false};       // one of these has gone on since
  bool m_has_stuck = false;                  // a launch that may wait for another device; of the thread with the window
  bool m_others_are_busy = false;            // other GPUs, as a capture has found; of the thread with the window
  bool m_is_undoing = false;                 // with m_mutex held
  std::size_t m_waiters = 0;
  bool m_started = false;
  bool m_has_dismissed = false;
  std::uint64_t m_next_number = 1;
  bool m_ordinary_is_said = false;           // that a kernel is given memory which no capture holds; of the thread with the window
  std::set<std::uint64_t> m_announced;       // modules whose variables the collector knows
  std::atomic<std::uint32_t> m_begun{0};     // dispatches between wanted() and end()
};

}  // namespace kerncap::cuda
