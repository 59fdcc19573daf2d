// What the engine and its workers share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "softgpu/exec/global_wave_sync.hpp"
#include "softgpu/exec/running_dispatch.hpp"
#include "softgpu/exec/schedule.hpp"

namespace kerncap::softgpu {

using DispatchList = std::vector<std::shared_ptr<RunningDispatch>>;

class EngineState {
 public:
  EngineState(unsigned workers, const Schedule& schedule) noexcept : m_worker_count(workers), m_schedule(schedule) {}
  ~EngineState();
  EngineState(const EngineState&) = delete;
  EngineState& operator=(const EngineState&) = delete;

  void submit(LaunchPlan plan, Engine::Callback done);
  // Stops the dispatches that are meant, and waits until they have called back and are gone.
  void abort_where(const std::function<bool(const RunningDispatch&)>& condition);

  // Of dispatches from now on.
  void choose(const Schedule& schedule);

  // For workers. The version grows whenever a dispatch comes or goes.
  [[nodiscard]] std::uint64_t version() const noexcept { return m_version.load(std::memory_order_acquire); }
  [[nodiscard]] DispatchList dispatches(std::uint64_t& version);
  void wait_for_change(std::uint64_t version);
  [[nodiscard]] bool ending() const noexcept { return m_ending.load(std::memory_order_relaxed); }
  // Calls back; only then does the dispatch leave the list.
  void finish(const std::shared_ptr<RunningDispatch>& dispatch);

 private:
  void start_workers();

  const unsigned m_worker_count;
  std::mutex m_mutex;
  Schedule m_schedule;
  std::condition_variable m_changed;   // workers wait here
  std::condition_variable m_finished;  // abort_where() waits here
  std::atomic<std::uint64_t> m_version{0};
  std::atomic<bool> m_ending{false};
  std::uint64_t m_submitted = 0;
  std::map<const AddressSpace*, GlobalWaveSync> m_syncs;
  DispatchList m_dispatches;
  std::vector<std::thread> m_threads;
};

}  // namespace kerncap::softgpu
