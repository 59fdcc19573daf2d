// Runs from further states, behind the captured one and in the same process: what code keeps from an earlier run is wrong
// for another state.
#include <cstddef>
#include <map>
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
    if (Result<void> changed = change(candidate, state); !changed) return changed;
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
  // Guarded runs follow, from the captured state first.
  if (Result<void> back = change_variables(candidate, {}); !back) return back;
  return m_plan.states.empty() ? Result<void>() : look_outside();
}

Result<void> Engine::change(Candidate& candidate, const State& state) {
  std::vector<ChunkJob> jobs;
  for (const State::Change& change : state.changes) {
    const Memory& before = *m_plan.regions[change.region].pre;
    if (m_plan.regions[change.region].own_code) continue;
    for (std::size_t i = 0; i < before.chunks.size(); ++i) {
      const std::string& chunk = change.memory->chunks[i];
      // A state mostly comes twice, and several have the same chunks.
      const bool is_verified = change.memory->is_verified || m_verified.contains(chunk);
      if (chunk != before.chunks[i]) jobs.push_back({change.memory, i, change.region, is_verified});
    }
  }
  std::vector<std::byte> here;
  const auto write = [&](const ChunkJob& job, std::span<const std::byte> data) -> Result<void> {
    const Region& region = m_plan.regions[job.owner];
    if (!m_functions.wanted()) return m_driver.write(region, region.base + job.offset(), data);
    here.assign(data.begin(), data.end());
    m_functions.bring_here(here);
    return m_driver.write(region, region.base + job.offset(), here);
  };
  if (Result<void> changed = for_each_chunk(m_store, jobs, write, m_options.verify); !changed) return changed;
  for (const ChunkJob& job : jobs) m_verified.insert(job.digest());
  return change_variables(candidate, state);
}

// Variables of the code object, where they were and where this candidate has them; its instructions stay. What an earlier
// state changed is as captured again, unless this one changes it.
Result<void> Engine::change_variables(Candidate& candidate, const State& state) {
  std::map<const Variable*, std::vector<std::byte>> wanted;
  const auto find = [&](const Region& region, const Memory& memory) -> Result<void> {
    const Result<std::vector<std::byte>> now = read_memory(*m_store, memory);
    if (!now) return now.error();
    const Result<std::vector<std::byte>> captured = read_memory(*m_store, *region.pre);
    if (!captured) return captured.error();
    for (const Variable& variable : m_plan.variables) {
      if (variable.address < region.base || variable.address + variable.bytes > region.end()) continue;
      const auto at = static_cast<std::ptrdiff_t>(variable.address - region.base);
      const auto slice = [&](const std::vector<std::byte>& all) {
        return std::vector(all.begin() + at, all.begin() + at + static_cast<std::ptrdiff_t>(variable.bytes));
      };
      std::vector<std::byte> held = slice(now.value());
      if (held != slice(captured.value())) m_varied.emplace(&variable, slice(captured.value()));
      if (m_varied.contains(&variable)) wanted[&variable] = std::move(held);
    }
    return {};
  };
  for (const State::Change& change : state.changes) {
    const Region& region = m_plan.regions[change.region];
    if (!region.own_code) continue;
    if (Result<void> found = find(region, *change.memory); !found) return found;
  }
  for (auto& [variable, captured] : m_varied) {
    const auto found = wanted.find(variable);
    const std::vector<std::byte>& held = found == wanted.end() ? captured : found->second;
    const Region* region = m_plan.region_at(variable->address);
    if (Result<void> written = m_driver.write(*region, variable->address, held); !written) return written;
    candidate.variables->choose(*variable, held, m_functions);
  }
  return {};
}

}  // namespace kerncap::replay
