// Runs from further states, behind the captured one and in the same process: what code keeps from an earlier run is wrong
// for another state.
#include <utility>
#include <vector>

#include "replay/chunk_fetcher.hpp"
#include "replay/engine.hpp"
#include "replay/quiet.hpp"
#include "replay/state_file.hpp"

namespace kerncap::replay {

using core::Error;
using core::Result;

Result<void> Engine::run_states(Candidate& candidate) {
  if (!m_plan.states.empty() && !m_options.report_file.empty()) be_quiet();  // people have read what the first run printed
  for (const State& state : m_plan.states) {
    m_progress.tell("state", m_outcome.states, m_plan.states.size());
    if (Result<void> restored = m_driver.restore_saved(); !restored) return restored;
    if (Result<void> changed = change(state); !changed) return changed;
    // What a repeat is compared with takes the same place on the device.
    if (Result<void> remembered = m_unchanged.remember(); !remembered) return remembered;
    m_is_fresh = true;
    m_driver.choose_order(state.order);
    Result<void> ran = run_once(candidate, false);
    if (ran) ran = take_times();
    m_driver.choose_order(std::nullopt);
    if (!ran) return m_faulted ? Error{ran.error().code, "from another state, " + ran.error().message} : ran.error();
    if (Result<void> looked = m_unchanged.look(); !looked) return looked;
    if (Result<void> collected = candidate.variables->collect(); !collected) return collected;
    const std::string folder = m_options.dump_folder + "/state_" + std::to_string(++m_outcome.states);
    if (Result<void> made = make_folder(folder); !made) return made;
    Result<void> dumped = m_options.changes_only ? dump_changes(candidate, folder, &state) : dump(candidate, folder);
    if (!dumped) return dumped;
  }
  return m_plan.states.empty() ? Result<void>() : look_outside();
}

Result<void> Engine::change(const State& state) {
  std::vector<ChunkJob> jobs;
  std::vector<const Memory*> memories;
  for (const State::Change& change : state.changes) {
    const Memory& before = *m_plan.regions[change.region].pre;
    memories.push_back(change.memory);
    for (std::size_t i = 0; i < before.chunks.size(); ++i) {
      if (change.memory->chunks[i] != before.chunks[i]) jobs.push_back({change.memory, i, change.region});
    }
  }
  // A state mostly comes twice: what was hashed once is not hashed again.
  const bool is_new = m_changed_to.insert(std::move(memories)).second && m_options.verify;
  std::vector<std::byte> here;
  const auto write = [&](const ChunkJob& job, std::span<const std::byte> data) -> Result<void> {
    const Region& region = m_plan.regions[job.owner];
    here.assign(data.begin(), data.end());
    if (m_functions.wanted()) m_functions.bring_here(here);
    return m_driver.write(region, region.base + job.offset(), here);
  };
  return for_each_chunk(m_store, jobs, write, is_new);
}

}  // namespace kerncap::replay
