#include "softgpu/exec/engine_state.hpp"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/no_signals.hpp"
#include "softgpu/exec/monotonic_clock.hpp"
#include "softgpu/exec/worker.hpp"

namespace kerncap::softgpu {

EngineState::~EngineState() {
  abort_where([](const RunningDispatch&) { return true; });
  {
    const std::lock_guard lock(m_mutex);
    m_ending.store(true);
    m_version.fetch_add(1);
  }
  m_changed.notify_all();
  for (std::thread& thread : m_threads) thread.join();
}

void EngineState::start_workers() {
  const core::NoSignals of_the_program(core::NoSignals::Faults::delivered);
  for (unsigned i = 0; i < m_worker_count; ++i) {
    m_threads.emplace_back([this] { Worker(*this).run(); });
    pthread_setname_np(m_threads.back().native_handle(), "softgpu-worker");
  }
}

void EngineState::choose(const Schedule& schedule) {
  const std::lock_guard lock(m_mutex);
  m_schedule = schedule;
}

void EngineState::submit(LaunchPlan plan, Engine::Callback done) {
  const std::uint64_t groups = plan.group_count;
  {
    const std::lock_guard lock(m_mutex);
    if (m_threads.empty()) start_workers();
    plan.sync = &m_syncs[plan.dispatch.space];
    // In another order the first work-groups may wait for later ones, which hardware never starts after them.
    if (m_schedule.is_adversarial) plan.max_resident_groups = plan.group_count;
    m_dispatches.push_back(
        std::make_shared<RunningDispatch>(std::move(plan), std::move(done), m_schedule, ++m_submitted, monotonic_ns()));
    m_version.fetch_add(1, std::memory_order_acq_rel);
  }
  if (groups < m_worker_count) {
    for (std::uint64_t i = 0; i < groups; ++i) m_changed.notify_one();
  } else {
    m_changed.notify_all();
  }
}

DispatchList EngineState::dispatches(std::uint64_t& version) {
  const std::lock_guard lock(m_mutex);
  version = m_version.load(std::memory_order_relaxed);
  return m_dispatches;
}

void EngineState::wait_for_change(std::uint64_t version) {
  std::unique_lock lock(m_mutex);
  m_changed.wait(lock, [&] { return m_version.load(std::memory_order_relaxed) != version; });
}

void EngineState::finish(const std::shared_ptr<RunningDispatch>& dispatch) {
  dispatch->finish(monotonic_ns());
  {
    const std::lock_guard lock(m_mutex);
    std::erase(m_dispatches, dispatch);
    m_version.fetch_add(1, std::memory_order_acq_rel);
  }
  m_finished.notify_all();
}

void EngineState::abort_where(const std::function<bool(const RunningDispatch&)>& condition) {
  const auto meant = [&](const std::shared_ptr<RunningDispatch>& dispatch) { return condition(*dispatch); };
  DispatchList list;
  {
    const std::lock_guard lock(m_mutex);
    std::copy_if(m_dispatches.begin(), m_dispatches.end(), std::back_inserter(list), meant);
  }
  for (const std::shared_ptr<RunningDispatch>& dispatch : list) {
    if (dispatch->stop(Fault{}, true)) finish(dispatch);
  }
  std::unique_lock lock(m_mutex);
  m_finished.wait(lock, [&] { return std::none_of(m_dispatches.begin(), m_dispatches.end(), meant); });
}

}  // namespace kerncap::softgpu
