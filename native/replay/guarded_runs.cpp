// Runs in which the device may not write where the captured kernel writes nothing: behind all others, as a fault ends what
// this process can do with the device.
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "replay/engine.hpp"
#include "replay/quiet.hpp"

namespace kerncap::replay {

using core::Result;

namespace {

constexpr std::chrono::seconds k_long(1);

}  // namespace

// As often as before, in as much time: a kernel that counts its launches may write in a later one only.
Result<void> Engine::run_guarded(Candidate& candidate) {
  if (!m_plan.guarded || !m_outcome.ran_once.empty()) return {};
  m_outcome.guarded_bytes = m_driver.guarded_bytes();
  if (m_outcome.guarded_bytes == 0) return {};
  if (!m_options.report_file.empty()) be_quiet();
  const auto began = std::chrono::steady_clock::now();
  const std::chrono::milliseconds most(m_options.repeat_ms * (m_outcome.unsettled ? k_unsettled_times : 1));
  const std::uint64_t wanted = 1 + std::max(m_outcome.repeats, m_options.repeats != 0 ? std::uint64_t{1} : 0);
  if (Result<void> back = m_own->put_back(); !back) return back;
  Guarded& captured = m_outcome.guarded.emplace_back();
  while (captured.runs < wanted) {
    const auto took = std::chrono::steady_clock::now() - began;
    // A second one there is, as of other runs, unless it takes long.
    if (took > most && (captured.runs > 1 || took > k_long)) break;
    m_progress.tell("guarded", captured.runs, wanted);
    if (Result<bool> ran = run_guarded_once(candidate, captured); !ran || !ran.value()) return ran ? Result<void>() : ran.error();
  }
  std::set<std::vector<std::pair<std::size_t, const Memory*>>> done;
  for (std::size_t i = 0; i < m_plan.states.size(); ++i) {
    const State& state = m_plan.states[i];
    std::vector<std::pair<std::size_t, const Memory*>> changes;
    for (const State::Change& change : state.changes) changes.emplace_back(change.region, change.memory);
    if (!state.guarded || m_outcome.states < m_plan.states.size() || !done.insert(std::move(changes)).second) continue;
    if (Result<void> restored = m_driver.restore_saved(); !restored) return restored;
    if (Result<void> changed = change(candidate, state); !changed) return changed;
    if (Result<void> back = m_own->put_back(); !back) return back;
    m_is_fresh = true;
    Guarded& guarded = m_outcome.guarded.emplace_back();
    guarded.state = i + 1;
    if (Result<bool> ran = run_guarded_once(candidate, guarded); !ran || !ran.value()) return ran ? Result<void>() : ran.error();
  }
  return {};
}

// False: there can be no more of them.
Result<bool> Engine::run_guarded_once(Candidate& candidate, Guarded& guarded) {
  m_guards = true;
  Result<void> ran = run_once(candidate, false);
  if (ran) ran = take_times();
  m_guards = false;
  if (ran) ran = m_driver.guard(false);
  if (ran) {
    ++guarded.runs;
    return true;
  }
  // The runs before were whole, and what they left is known.
  (std::exchange(m_faulted, false) ? guarded.fault : guarded.failure) = ran.error().message;
  return false;
}

}  // namespace kerncap::replay
