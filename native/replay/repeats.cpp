#include "replay/repeats.hpp"

#include <algorithm>

#include "core/digest.hpp"
#include "replay/state_file.hpp"

namespace kerncap::replay {
namespace {

using core::Result;

// Of what the device does not compare, more than this is watched only where the captured kernel writes.
constexpr std::uint64_t k_most_kept_bytes = std::uint64_t{1} << 30;

bool is_compared(const Region& region) { return region.pre != nullptr && region.post != nullptr; }

bool is_written(const Region& region, std::uint64_t offset, std::uint64_t bytes) {
  return std::any_of(region.written.begin(), region.written.end(), [&](const ByteRange& written) {
    return written.offset < offset + bytes && offset < written.offset + written.bytes;
  });
}

}  // namespace

Result<std::vector<std::byte>> Repeats::read(const Chunk& chunk) const {
  std::vector<std::byte> data(chunk.bytes());
  if (Result<void> done = m_read(*chunk.region, chunk.region->base + chunk.offset(), data); !done) return done.error();
  return data;
}

Result<void> Repeats::keep() {
  if (Result<void> remembered = m_unchanged.remember(); !remembered) return remembered;
  std::vector<const Region*> regions;
  std::uint64_t total = 0;
  for (const Region& region : m_plan.regions) {
    if (!is_compared(region) || m_unchanged.remembers(region)) continue;
    regions.push_back(&region);
    total += region.bytes;
  }
  for (const Region* region : regions) {
    for (std::size_t i = 0; i < region->pre->chunks.size(); ++i) {
      const Chunk chunk{region, i};
      if (total > k_most_kept_bytes && !is_written(*region, chunk.offset(), chunk.bytes())) continue;
      Result<std::vector<std::byte>> data = read(chunk);
      if (!data) return data.error();
      m_kept.push_back({chunk, std::move(data.value())});
    }
  }
  return {};
}

Result<bool> Repeats::differs() {
  m_differing.clear();
  if (Result<void> looked = m_unchanged.look(); !looked) return looked.error();
  for (const Region& region : m_plan.regions) {
    if (!is_compared(region) || !m_unchanged.remembers(region)) continue;
    for (std::size_t i = 0; i < region.pre->chunks.size(); ++i) {
      if (!m_unchanged.is_known(region, i)) m_differing.push_back({&region, i});
    }
  }
  for (const Kept& kept : m_kept) {
    const Result<std::vector<std::byte>> data = read(kept.chunk);
    if (!data) return data.error();
    if (data.value() != kept.data) m_differing.push_back(kept.chunk);
  }
  return !m_differing.empty();
}

Result<std::string> Repeats::name() const {
  if (m_differing.empty()) return std::string();
  core::Hasher hasher;
  for (const Chunk& chunk : m_differing) {
    const std::uint64_t address = chunk.region->base + chunk.offset();
    hasher.update(std::as_bytes(std::span(&address, 1)));
    const Result<std::vector<std::byte>> data = read(chunk);
    if (!data) return data.error();
    hasher.update(data.value());
  }
  return hasher.finish().hex();
}

std::uint64_t Repeats::differing_bytes() const {
  std::uint64_t bytes = 0;
  for (const Chunk& chunk : m_differing) bytes += chunk.bytes();
  return bytes;
}

Result<void> Repeats::dump(const std::string& folder) const {
  ChangedChunks file(folder);
  const Region* last = nullptr;
  for (const Chunk& chunk : m_differing) {
    if (chunk.region != last) file.begin(*chunk.region);
    last = chunk.region;
    const Result<std::vector<std::byte>> data = read(chunk);
    if (!data) return data.error();
    file.put(chunk.index, data.value());
  }
  return file.close();
}

}  // namespace kerncap::replay
