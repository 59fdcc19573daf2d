// What a replay left in memory, written to files.
#include <algorithm>

#include "replay/chunk_fetcher.hpp"
#include "replay/engine.hpp"
#include "replay/state_file.hpp"

namespace kerncap::replay {

using core::Result;

Result<void> Engine::read_state(const Candidate& last, const Region& region, std::uint64_t address, std::span<std::byte> data) {
  if (Result<void> read = m_driver.read(region, address, data); !read) return read;
  last.variables->overlay(address, data);
  m_functions.take_back(data);
  return {};
}

// With changes only, what is as it was before is left out.
Result<void> Engine::dump(const Candidate& last) {
  constexpr std::uint64_t k_piece = 4 << 20;
  std::vector<std::byte> buffer;
  for (const Region& region : m_plan.regions) {
    const Memory* before = m_options.changes_only ? region.pre : nullptr;
    const std::uint64_t piece = before == nullptr ? k_piece : before->chunk_bytes;
    StateFile file(m_options.dump_folder, region, before != nullptr);
    for (std::uint64_t at = 0; at < region.bytes; at += piece) {
      if (before != nullptr && m_unchanged.is_known(region, at / piece)) continue;
      buffer.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece, region.bytes - at)));
      if (Result<void> read = read_state(last, region, region.base + at, buffer); !read) return read;
      if (before == nullptr) {
        file.put(at, buffer);
      } else if (m_unchanged.has_looked(region) || !is_chunk(buffer, before->chunks[at / piece])) {
        file.put_chunk(at / piece, buffer);
      }
    }
    if (Result<void> closed = file.close(); !closed) return closed;
  }
  return {};
}

}  // namespace kerncap::replay
