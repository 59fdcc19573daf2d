// What a replay left in memory, compared with the golden state.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

#include "replay/chunk_fetcher.hpp"
#include "replay/engine.hpp"

namespace kerncap::replay {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

// Differences are told by region, and inside the kernel's own code object by variable.
class Differences {
 public:
  void add(const Region& region, const Variable* variable, std::uint64_t address) {
    auto [found, is_new] = m_found.try_emplace({&region, variable});
    Difference& difference = found->second;
    if (is_new) {
      difference.name = variable == nullptr ? "" : variable->name;
      difference.base = variable == nullptr ? region.base : variable->address;
      difference.first_offset = address - difference.base;
    }
    difference.first_offset = std::min(difference.first_offset, address - difference.base);
    ++difference.bytes;
  }
  [[nodiscard]] std::vector<Difference> list() const {
    std::vector<Difference> all;
    for (const auto& [key, difference] : m_found) all.push_back(difference);
    return all;
  }

 private:
  std::map<std::pair<const Region*, const Variable*>, Difference> m_found;
};

// What two of the program's threads, or one of them and the kernel, write lies no closer than this: a line of the caches.
constexpr std::size_t k_cell_bytes = 64;

}  // namespace

const Variable* Engine::variable_at(std::uint64_t address) const {
  for (const Variable& variable : m_plan.variables) {
    if (address >= variable.address && address - variable.address < variable.bytes) return &variable;
  }
  return nullptr;
}

Result<Comparison> Engine::compare(const Candidate& last) {
  Comparison comparison;
  std::vector<ChunkJob> jobs;
  for (std::size_t r = 0; r < m_plan.regions.size(); ++r) {
    const Region& region = m_plan.regions[r];
    if (region.post == nullptr) continue;
    for (std::size_t i = 0; i < region.post->chunks.size(); ++i) {
      const bool is_same = m_unchanged.is_known(region, i) && region.pre->chunks[i] == region.post->chunks[i];
      if (!is_same) jobs.push_back({region.post, i, r});
    }
    comparison.compared = true;
    comparison.bytes += region.bytes;
  }
  std::vector<std::byte> actual;
  std::vector<std::byte> before;
  Differences differences;
  Differences untouched;                 // the same, of host memory where the run left it as it was before
  std::set<const Region*> written;       // by the run: something there is not as it was before
  Result<void> done = for_each_chunk(m_store, jobs, [&](const ChunkJob& job, std::span<const std::byte> golden) -> Result<void> {
    const Region& region = m_plan.regions[job.owner];
    const std::uint64_t address = region.base + job.offset();
    actual.resize(golden.size());
    if (Result<void> read = read_state(last, region, address, actual); !read) return read;
    const bool is_golden = std::memcmp(actual.data(), golden.data(), golden.size()) == 0;
    const std::string& chunk_before = region.pre->chunks[job.index];
    if (is_golden) {
      if (chunk_before != region.post->chunks[job.index]) written.insert(&region);
      return {};
    }
    if (!is_chunk(actual, chunk_before)) written.insert(&region);
    before.clear();
    if (region.is_shared_with_host() && m_plan.variant.empty()) {
      Result<std::vector<std::byte>> read = read_memory(*m_store, {golden.size(), region.pre->chunk_bytes, {chunk_before}});
      if (!read) return read.error();
      before = std::move(read.value());
    }
    for (std::size_t cell = 0; cell < golden.size(); cell += k_cell_bytes) {
      const std::size_t end = std::min(golden.size(), cell + k_cell_bytes);
      const bool is_untouched = !before.empty() && std::memcmp(&actual[cell], &before[cell], end - cell) == 0;
      for (std::size_t i = cell; i < end; ++i) {
        if (actual[i] == golden[i]) continue;
        (is_untouched ? untouched : differences).add(region, region.own_code ? variable_at(address + i) : nullptr, address + i);
      }
    }
    return {};
  });
  if (!done) return done.error();
  comparison.differences = differences.list();
  const Result<bool> wrote_variable = compare_variables(last, comparison);
  if (!wrote_variable) return wrote_variable.error();
  weigh_untouched(untouched.list(), !written.empty() || wrote_variable.value(),
                  [&](const Difference& each) { return written.contains(m_plan.region_at(each.base)); }, comparison);
  return comparison;
}

// Threads of the program that only write memory go on during a capture: what changed in memory of the host and is as before
// after a run was theirs, unless the run did nothing at all.
void Engine::weigh_untouched(const std::vector<Difference>& untouched, bool wrote_anything,
                             const std::function<bool(const Difference&)>& was_written_beside, Comparison& comparison) {
  for (const Difference& part : untouched) {
    char name[32];
    std::snprintf(name, sizeof name, "0x%lx", part.base);
    const std::string where = std::string("region ") + name + " (host memory)";
    const std::string bytes = std::to_string(part.bytes) + (part.bytes == 1 ? " byte" : " bytes");
    if (!wrote_anything) {
      comparison.differences.push_back(part);
      comparison.notes.push_back("the kernel wrote nothing at all: " + bytes + " of " + where + " changed while it ran in the " +
                                "program, by its own doing or by that of the program's threads, on which it may wait");
    } else if (was_written_beside(part) && m_plan.region_at(part.base)->kind == Kind::managed) {
      // Programs keep their outputs in managed memory, and loaders fill pinned memory.
      comparison.differences.push_back(part);
    } else if (was_written_beside(part)) {
      comparison.notes.push_back(bytes + " of " + where + " were changed by the program itself while the kernel ran, which " +
                                "leaves them alone");
    } else {
      comparison.notes.push_back(where + " was changed by the program itself while the kernel ran, which wrote nothing at all " +
                                "there");
    }
  }
}

// Those that lie in no captured region: a back end that does not know where its code objects are has only them.
// Returns whether the run wrote one.
Result<bool> Engine::compare_variables(const Candidate& last, Comparison& comparison) {
  bool wrote = false;
  for (const Variable& variable : m_plan.variables) {
    const Region* region = m_plan.region_at(variable.address);
    if (variable.post == nullptr || (region != nullptr && region->post != nullptr)) continue;
    const auto address = last.variables->named(variable.name, variable.bytes);
    if (!address) continue;  // a variant may have done away with it
    std::vector<std::byte> actual(variable.bytes);
    if (const std::vector<std::byte>* state = last.variables->state_of(variable)) {
      actual = *state;
    } else if (Result<void> read = m_driver.read(m_plan.place_of_code(), *address, actual); !read) {
      return read.error();
    }
    comparison.compared = true;
    comparison.bytes += variable.bytes;
    m_functions.take_back(actual);
    Difference difference{variable.name, variable.address, 0, 0};
    const Result<std::vector<std::byte>> golden = read_memory(*m_store, *variable.post);
    if (!golden) return golden.error();
    for (std::size_t i = 0; i < actual.size(); ++i) {
      if (actual[i] != golden.value()[i] && difference.bytes++ == 0) difference.first_offset = i;
    }
    if (difference.bytes != 0) comparison.differences.push_back(difference);
    else if (variable.post != variable.pre) wrote = true;
  }
  return wrote;
}

}  // namespace kerncap::replay
