// Finds addresses in bytes; see the header for what counts as one.
#include "capture/reach.hpp"

#include <algorithm>
#include <cstring>

namespace kerncap::capture {
namespace {

template <typename Visit>
void each_word(std::span<const std::byte> bytes, std::size_t step, Visit visit) {
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes.size(); at += step) {
    std::uint64_t word;
    std::memcpy(&word, &bytes[at], sizeof word);
    visit(word);
  }
}

}  // namespace

bool points_into(std::span<const std::byte> arguments, const Allocation& region) noexcept {
  bool found = false;
  each_word(arguments, 1, [&](std::uint64_t word) { found = found || word - region.base < region.bytes; });
  return found;
}

ReachScan::ReachScan(const std::vector<Allocation>& regions) : m_regions(regions), m_reached(regions.size(), false) {
  if (regions.empty()) return;
  m_lowest = regions.front().base - std::min(regions.front().base, k_reach_slack_bytes);
  m_highest = regions.back().base + regions.back().bytes + k_reach_slack_bytes;
}

void ReachScan::add_root(std::size_t index) {
  if (m_reached[index]) return;
  m_reached[index] = true;
  ++m_count;
  m_found.push_back(index);
}

void ReachScan::look_at(std::uint64_t word) {
  if (word < m_lowest || word > m_highest) return;
  // Regions do not overlap: those that count lie around the first one that begins after the word. A word that begins
  // one may be meant as the end of the one before it, too.
  const auto after = std::upper_bound(m_regions.begin(), m_regions.end(), word,
                                      [](std::uint64_t at, const Allocation& region) { return at < region.base; });
  const auto index = static_cast<std::size_t>(after - m_regions.begin());
  for (std::size_t before = index; before > 0; --before) {
    const Allocation& region = m_regions[before - 1];
    if (word - region.base > region.bytes + k_reach_slack_bytes) break;
    add_root(before - 1);
  }
  if (index < m_regions.size() && m_regions[index].base - word <= k_reach_slack_bytes) add_root(index);
}

void ReachScan::look_at_arguments(std::span<const std::byte> bytes) {
  each_word(bytes, 1, [this](std::uint64_t word) { look_at(word); });
}

void ReachScan::look_at_memory(std::span<const std::byte> bytes) {
  each_word(bytes, sizeof(std::uint64_t), [this](std::uint64_t word) {
    if (word - m_lowest <= m_highest - m_lowest) look_at(word);
  });
}

std::optional<std::size_t> ReachScan::next() {
  if (m_found.empty()) return std::nullopt;
  const std::size_t index = m_found.front();
  m_found.pop_front();
  return index;
}

}  // namespace kerncap::capture
