// What a replay left in memory, written to files; and whether further runs leave the same.
#include <algorithm>
#include <chrono>
#include <map>

#include "replay/chunk_fetcher.hpp"
#include "replay/engine.hpp"
#include "replay/own_data.hpp"
#include "replay/quiet.hpp"
#include "replay/repeats.hpp"
#include "replay/state_file.hpp"

namespace kerncap::replay {

using core::Error;
using core::ErrorCode;
using core::Result;

Result<void> Engine::read_state(const Candidate& last, const Region& region, std::uint64_t address, std::span<std::byte> data) {
  if (Result<void> read = m_driver.read(region, address, data); !read) return read;
  last.variables->overlay(address, data);
  m_functions.take_back(data);
  return {};
}

Result<void> Engine::dump(const Candidate& last, const std::string& folder) {
  constexpr std::uint64_t k_piece = 4 << 20;
  std::vector<std::byte> buffer;
  for (const Region& region : m_plan.regions) {
    StateFile file(folder, region);
    for (std::uint64_t at = 0; at < region.bytes; at += k_piece) {
      buffer.resize(static_cast<std::size_t>(std::min<std::uint64_t>(k_piece, region.bytes - at)));
      if (Result<void> read = read_state(last, region, region.base + at, buffer); !read) return read;
      file.put(at, buffer);
    }
    if (Result<void> closed = file.close(); !closed) return closed;
  }
  return {};
}

// What is as it was before the run is left out.
Result<void> Engine::dump_changes(const Candidate& last, const std::string& folder, const State* from) {
  std::map<const Region*, const Memory*> changed;
  for (const State::Change& change : from == nullptr ? std::vector<State::Change>() : from->changes) {
    changed.emplace(&m_plan.regions[change.region], change.memory);
  }
  ChangedChunks file(folder);
  std::vector<std::byte> buffer;
  for (const Region& region : m_plan.regions) {
    const auto found = changed.find(&region);
    const Memory* const before = found == changed.end() ? region.pre : found->second;
    if (before == nullptr) continue;
    file.begin(region);
    for (std::size_t chunk = 0; chunk < before->chunks.size(); ++chunk) {
      if (m_unchanged.is_known(region, chunk)) continue;
      const std::uint64_t at = chunk * before->chunk_bytes;
      buffer.resize(static_cast<std::size_t>(std::min<std::uint64_t>(before->chunk_bytes, region.bytes - at)));
      if (Result<void> read = read_state(last, region, region.base + at, buffer); !read) return read;
      if (m_unchanged.remembers(region) || !is_chunk(buffer, before->chunks[chunk])) file.put(chunk, buffer);
    }
  }
  return file.close();
}

Result<void> Engine::repeat(Candidate& candidate) {
  const auto began = std::chrono::steady_clock::now();
  const std::chrono::milliseconds most(m_options.repeat_ms);
  Repeats repeats(m_plan, m_driver, [&](const Region& region, std::uint64_t address, std::span<std::byte> data) {
    return read_state(candidate, region, address, data);
  });
  if (Result<void> kept = repeats.keep(); !kept) return kept;
  if (!m_options.report_file.empty()) be_quiet();  // people have read what the first run printed
  OwnData own(m_plan, m_driver, *candidate.code);
  const bool looks = m_options.unsettled_repeats != 0;
  std::chrono::steady_clock::duration looking{};  // of a large code object it takes as long as a run
  if (const Result<bool> looked = looks ? own.look() : false; !looked) return looked.error();
  for (std::uint64_t i = 0;; ++i) {
    const auto took = std::chrono::steady_clock::now() - began - looking;
    const bool has_more = i < m_options.repeats && took <= most;
    // What counts its launches may do otherwise in a later one.
    const bool goes_on = m_outcome.unsettled && i < m_options.unsettled_repeats && took <= k_unsettled_times * most;
    // One there is always: what is right only once shows in it.
    if (i > 0 && !has_more && !goes_on) break;
    m_progress.tell("repeat", i, m_options.repeats);
    // The first is one of them: there may be no other.
    if (m_options.order && i % 2 == 0) m_driver.choose_order(*m_options.order + i);
    Result<void> ran = run_once(candidate, false);
    if (ran) ran = take_times();
    m_driver.choose_order(std::nullopt);
    if (!ran) return m_faulted ? Error{ran.error().code, "once more from the same state, " + ran.error().message} : ran.error();
    if (Result<void> collected = candidate.variables->collect(); !collected) return collected;
    const Result<bool> differs = repeats.differs();
    if (!differs) return differs.error();
    ++m_outcome.repeats;
    if (looks) {
      const auto look_began = std::chrono::steady_clock::now();
      const Result<bool> changed = own.look();
      if (!changed) return changed.error();
      m_outcome.unsettled = changed.value();
      looking += std::chrono::steady_clock::now() - look_began;
    }
    if (!differs.value()) continue;
    if (m_outcome.repeats_differing++ >= m_options.keep_differing) continue;
    const std::string folder = m_options.dump_folder + "/differing_" + std::to_string(m_outcome.repeats_differing);
    if (Result<void> made = make_folder(folder); !made) return made;
    if (Result<void> dumped = repeats.dump(folder); !dumped) return dumped;
  }
  return {};
}

}  // namespace kerncap::replay
