// A dispatch in flight: how many work-groups are left to take, how many to end, and what went wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "softgpu/exec/engine.hpp"
#include "softgpu/exec/launch_plan.hpp"
#include "softgpu/exec/schedule.hpp"

namespace kerncap::softgpu {

class RunningDispatch {
 public:
  RunningDispatch(LaunchPlan plan, Engine::Callback done, const Schedule& schedule, std::uint64_t serial, std::uint64_t begin_ns)
      : m_plan(std::move(plan)), m_done(std::move(done)), m_schedule(schedule), m_serial(serial), m_unended(m_plan.group_count) {
    m_outcome.begin_ns = begin_ns;
  }

  // Grows from dispatch to dispatch of the engine.
  [[nodiscard]] std::uint64_t serial() const noexcept { return m_serial; }
  [[nodiscard]] const Schedule& schedule() const noexcept { return m_schedule; }
  // What makes its order another one than that of other dispatches with the same seed.
  [[nodiscard]] std::uint64_t order() const noexcept { return m_schedule.counts_dispatches ? m_serial : 0; }

  [[nodiscard]] const LaunchPlan& plan() const noexcept { return m_plan; }
  [[nodiscard]] bool stopped() const noexcept { return m_stopped.load(std::memory_order_acquire); }
  [[nodiscard]] bool has_untaken() const noexcept { return m_next.load(std::memory_order_relaxed) < m_plan.group_count; }

  // The next work-group nobody has taken; false when there is none, or no room for it yet.
  [[nodiscard]] bool take(std::uint64_t& group_index) noexcept {
    if (m_resident.fetch_add(1, std::memory_order_relaxed) >= m_plan.max_resident_groups || !take_next(group_index)) {
      m_resident.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    return true;
  }

  // One taken work-group has ended, or was dropped after a stop. True: it was the last of the dispatch.
  [[nodiscard]] bool end_group(const InstructionCounts& counts) {
    {
      const std::lock_guard lock(m_mutex);
      m_outcome.counts.total += counts.total;
      for (unsigned i = 0; i < k_class_count; ++i) m_outcome.counts.by_class[i] += counts.by_class[i];
    }
    m_resident.fetch_sub(1, std::memory_order_relaxed);
    return m_unended.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  // No further work-group is taken. True: nothing was running, so the caller has to finish the dispatch.
  [[nodiscard]] bool stop(const Fault& fault, bool aborted) {
    {
      const std::lock_guard lock(m_mutex);
      if (!m_outcome.fault && !m_outcome.aborted) {
        m_outcome.fault = fault;
        m_outcome.aborted = aborted;
      }
    }
    m_stopped.store(true, std::memory_order_release);
    const std::uint64_t untaken = m_plan.group_count - m_next.exchange(m_plan.group_count, std::memory_order_acq_rel);
    return untaken != 0 && m_unended.fetch_sub(untaken, std::memory_order_acq_rel) == untaken;
  }

  // Once, by whoever ended the last work-group.
  void finish(std::uint64_t end_ns) {
    m_outcome.end_ns = end_ns;
    m_done(m_outcome);
  }

 private:
  [[nodiscard]] bool take_next(std::uint64_t& group_index) noexcept {
    std::uint64_t next = m_next.load(std::memory_order_relaxed);
    while (next < m_plan.group_count) {
      if (m_next.compare_exchange_weak(next, next + 1, std::memory_order_relaxed)) {
        group_index = next;
        return true;
      }
    }
    return false;
  }

  LaunchPlan m_plan;
  Engine::Callback m_done;
  Schedule m_schedule;
  std::uint64_t m_serial;
  std::atomic<std::uint64_t> m_next{0}, m_resident{0};
  std::atomic<std::uint64_t> m_unended;
  std::atomic<bool> m_stopped{false};
  std::mutex m_mutex;
  DispatchOutcome m_outcome;
};

}  // namespace kerncap::softgpu
