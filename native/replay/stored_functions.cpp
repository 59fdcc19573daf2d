// Replaces words that are addresses of functions.
#include "replay/stored_functions.hpp"

#include <algorithm>
#include <cstring>

namespace kerncap::replay {

using core::Result;

Result<void> StoredFunctions::look_up(const Plan& plan, Driver& driver, const Code& code, bool is_variant, bool is_home) {
  for (const StoredFunction& function : plan.functions) {
    if (function.of_variant != is_variant) continue;
    const auto variable = code.variable(function.variable, function.bytes);
    if (!variable) continue;
    std::uint64_t here = 0;
    const std::span<std::byte> word(reinterpret_cast<std::byte*>(&here), sizeof here);
    if (Result<void> read = driver.read(plan.place_of_code(), *variable + function.offset, word); !read) return read;
    if (here == function.captured) continue;
    if (is_home) m_here.emplace_back(function.captured, here);
    m_back.emplace_back(here, function.captured);
  }
  std::sort(m_here.begin(), m_here.end());
  std::sort(m_back.begin(), m_back.end());
  return {};
}

std::uint64_t StoredFunctions::bring_here(std::span<std::byte> data) const { return replace(data, m_here); }

std::uint64_t StoredFunctions::take_back(std::span<std::byte> data) const { return replace(data, m_back); }

std::uint64_t StoredFunctions::replace(std::span<std::byte> data, const Addresses& addresses) {
  if (addresses.empty()) return 0;
  const std::uint64_t begin = addresses.front().first;
  const std::uint64_t span = addresses.back().first - begin;
  std::uint64_t count = 0;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= data.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, &data[at], sizeof word);
    if (word - begin > span) continue;         // one comparison for nearly all words
    const auto found = std::lower_bound(addresses.begin(), addresses.end(), std::pair(word, std::uint64_t{0}));
    if (found == addresses.end() || found->first != word) continue;
    std::memcpy(&data[at], &found->second, sizeof word);
    ++count;
  }
  return count;
}

}  // namespace kerncap::replay
