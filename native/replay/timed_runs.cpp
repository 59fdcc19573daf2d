// What each timed run left: a time counts only for a run that did the work. Looked at behind the run, outside of its time.
#include <algorithm>
#include <chrono>
#include <limits>

#include "replay/engine.hpp"
#include "replay/state_file.hpp"

namespace kerncap::replay {

using core::Result;

namespace {

// States beyond this have no files, and nobody can judge them.
constexpr std::uint64_t k_most_kept_bytes = std::uint64_t{2} << 30;
// Longer kernels do not show what the run before left.
constexpr std::chrono::milliseconds k_longest_run_ahead{50};
constexpr std::uint64_t k_not_kept = std::numeric_limits<std::uint32_t>::max();

}  // namespace

// Behind a judged run the device has rested, and its cache holds what was compared. In a program a kernel mostly follows
// another one at once. So it runs once more without a time, directly before the run that is timed. Between the two, the state is
// put back, and what the first left in registers and shared memory is overwritten: none of this is in the time.
Result<bool> Engine::run_ahead(Candidate& candidate) {
  const bool matters = !m_options.flush_cache && !m_driver.opened().is_software;
  if (m_judged == nullptr || !matters || m_between_judgements > k_longest_run_ahead) return false;
  if (Result<void> ran = run_once(candidate, false); !ran) return ran.error();
  return true;
}

// Most runs leave what the first one did, and only that is compared with the golden state: the device itself, or a copy in
// this process, tells which.
Result<void> Engine::judge(Candidate& candidate) {
  if (Result<void> collected = candidate.variables->collect(); !collected) return collected;
  const bool is_first = m_judged == nullptr;
  m_judged = &candidate;
  const auto now = std::chrono::steady_clock::now();
  m_between_judgements = is_first ? decltype(m_between_judgements)() : now - m_judged_at;
  m_judged_at = now;
  const Result<std::uint64_t> state = is_first ? judge_first(candidate) : judge_further(candidate);
  if (!state) return state.error();
  candidate.states->push_back(state.value());
  return {};
}

Result<std::uint64_t> Engine::judge_first(Candidate& candidate) {
  if (Result<void> looked = m_unchanged.look(); !looked) return looked.error();
  Result<Comparison> compared = compare(candidate);
  if (!compared) return compared.error();
  const std::uint64_t state = compared.value().differences.empty() ? 0 : 1;
  if (state != 0 && !m_options.states_folder.empty()) {
    const Result<std::string> folder = folder_of_state(state);
    if (!folder) return folder.error();
    if (Result<void> dumped = dump_changes(candidate, folder.value()); !dumped) return dumped.error();
  }
  m_states.emplace("", state);
  m_comparisons.emplace(state, std::move(compared.value()));
  m_outcome.first_state = m_last_state = state;
  if (m_candidates.size() * m_options.iterations == 1) return state;
  // What the device knows about the state before is replaced by what this run left.
  m_first.emplace(m_plan, m_driver, [this](const Region& region, std::uint64_t address, std::span<std::byte> data) {
    return read_state(*m_judged, region, address, data);
  });
  if (Result<void> kept = m_first->keep(); !kept) return kept.error();
  m_unchanged.forget();
  return state;
}

Result<std::uint64_t> Engine::judge_further(Candidate& candidate) {
  if (const Result<bool> differs = m_first->differs(); !differs) return differs.error();
  const Result<std::string> name = m_first->name();
  if (!name) return name.error();
  if (const auto known = m_states.find(name.value()); known != m_states.end()) return known->second;
  Result<Comparison> compared = compare(candidate);
  if (!compared) return compared.error();
  const bool is_golden = compared.value().differences.empty();
  std::uint64_t state = is_golden ? 0 : m_last_state + 1;
  const std::uint64_t bytes = m_first->differing_bytes();
  if (!is_golden && m_kept_bytes + bytes > k_most_kept_bytes) {
    state = k_not_kept;
  } else if (!is_golden && !m_options.states_folder.empty()) {
    m_kept_bytes += bytes;
    const Result<std::string> folder = folder_of_state(state);
    if (!folder) return folder.error();
    if (Result<void> dumped = m_first->dump(folder.value()); !dumped) return dumped.error();
  }
  if (state != k_not_kept) m_last_state = std::max(m_last_state, state);
  m_states.emplace(name.value(), state);
  m_comparisons.emplace(state, std::move(compared.value()));
  return state;
}

Result<std::string> Engine::folder_of_state(std::uint64_t number) const {
  std::string folder = m_options.states_folder + "/state_" + std::to_string(number);
  if (Result<void> made = make_folder(folder); !made) return made.error();
  return folder;
}

}  // namespace kerncap::replay
