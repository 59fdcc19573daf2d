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
  void drop(const Region& region) {
    std::erase_if(m_found, [&region](const auto& item) { return item.first.first == &region; });
  }
  [[nodiscard]] std::set<const Region*> regions() const {
    std::set<const Region*> all;
    for (const auto& [key, difference] : m_found) all.insert(key.first);
    return all;
  }
  [[nodiscard]] std::vector<Difference> list() const {
    std::vector<Difference> all;
    for (const auto& [key, difference] : m_found) all.push_back(difference);
    return all;
  }

 private:
  std::map<std::pair<const Region*, const Variable*>, Difference> m_found;
};

}  // namespace

const Variable* Engine::variable_at(std::uint64_t address) const {
  for (const Variable& variable : m_plan.variables) {
    if (address >= variable.address && address - variable.address < variable.bytes) return &variable;
  }
  return nullptr;
}

Result<void> Engine::compare(const Candidate& last) {
  std::vector<ChunkJob> jobs;
  for (std::size_t r = 0; r < m_plan.regions.size(); ++r) {
    const Region& region = m_plan.regions[r];
    if (region.post == nullptr) continue;
    for (std::size_t i = 0; i < region.post->chunks.size(); ++i) {
      const bool is_same = m_unchanged.is_known(region, i) && region.pre->chunks[i] == region.post->chunks[i];
      if (!is_same) jobs.push_back({region.post, i, r});
    }
    m_outcome.compared = true;
    m_outcome.compared_bytes += region.bytes;
  }
  std::vector<std::byte> actual;
  Differences differences;
  std::set<const Region*> written;       // by the run: something there is not as it was before
  Result<void> done = for_each_chunk(m_store, jobs, [&](const ChunkJob& job, std::span<const std::byte> golden) -> Result<void> {
    const Region& region = m_plan.regions[job.owner];
    const std::uint64_t address = region.base + job.offset();
    actual.resize(golden.size());
    if (Result<void> read = read_state(last, region, address, actual); !read) return read;
    const bool is_golden = std::memcmp(actual.data(), golden.data(), golden.size()) == 0;
    const std::string& before = region.pre->chunks[job.index];
    if (region.on_host() && (is_golden ? before != region.post->chunks[job.index] : !is_chunk(actual, before))) {
      written.insert(&region);
    }
    if (is_golden) return {};
    for (std::size_t i = 0; i < golden.size(); ++i) {
      if (actual[i] != golden[i]) differences.add(region, region.own_code ? variable_at(address + i) : nullptr, address + i);
    }
    return {};
  });
  if (!done) return done;
  for (const Region* region : differences.regions()) {
    // Threads of the program that only write memory go on during a capture.
    if (!region->on_host() || written.contains(region) || !m_plan.variant.empty()) continue;
    differences.drop(*region);
    char name[32];
    std::snprintf(name, sizeof name, "0x%lx", region->base);
    m_outcome.notes.push_back(std::string("region ") + name +
                              " (host memory) was changed by the program itself while the kernel ran, which leaves it alone");
  }
  m_outcome.differences = differences.list();
  return compare_variables(last);
}

// Those that lie in no captured region: a back end that does not know where its code objects are has only them.
Result<void> Engine::compare_variables(const Candidate& last) {
  for (const Variable& variable : m_plan.variables) {
    const Region* region = m_plan.region_at(variable.address);
    if (variable.post == nullptr || (region != nullptr && region->post != nullptr)) continue;
    const auto address = last.variables->named(variable.name, variable.bytes);
    if (!address) continue;  // a variant may have done away with it
    std::vector<std::byte> actual(variable.bytes);
    if (const std::vector<std::byte>* state = last.variables->state_of(variable)) {
      actual = *state;
    } else if (Result<void> read = m_driver.read(m_plan.place_of_code(), *address, actual); !read) {
      return read;
    }
    m_outcome.compared = true;
    m_outcome.compared_bytes += variable.bytes;
    m_functions.take_back(actual);
    Difference difference{variable.name, variable.address, 0, 0};
    const Result<std::vector<std::byte>> golden = read_memory(*m_store, *variable.post);
    if (!golden) return golden.error();
    for (std::size_t i = 0; i < actual.size(); ++i) {
      if (actual[i] != golden.value()[i] && difference.bytes++ == 0) difference.first_offset = i;
    }
    if (difference.bytes != 0) m_outcome.differences.push_back(difference);
  }
  return {};
}

}  // namespace kerncap::replay
