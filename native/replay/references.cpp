// Looks for addresses of module variables in memory that passes by during the restore.
#include "replay/references.hpp"

#include <algorithm>
#include <cstring>

namespace kerncap::replay {

References::References(const Plan& plan) : m_plan(plan) {
  for (const Variable& variable : plan.variables) {
    m_begin = std::min(m_begin, variable.address);
    m_end = std::max(m_end, variable.address + variable.bytes);
  }
}

void References::look_at(std::span<const std::byte> data) {
  const std::uint64_t span = m_end - m_begin;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= data.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, &data[at], sizeof word);
    if (word - m_begin >= span) continue;      // one comparison for nearly all words
    for (const Variable& variable : m_plan.variables) {
      if (word >= variable.address && word < variable.address + variable.bytes) m_found.insert(&variable);
    }
  }
}

}  // namespace kerncap::replay
