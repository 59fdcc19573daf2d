// Asks the driver, before and after runs.
#include "replay/unchanged.hpp"

namespace kerncap::replay {

using core::Result;

Result<void> Unchanged::remember() {
  std::vector<const Region*> wanted;
  for (const Region& region : m_plan.regions) {
    // Variables of the code object may be elsewhere now; and all chunks have to be of one size.
    const bool is_data = region.pre != nullptr && !region.own_code && region.kind != Kind::code_object;
    if (is_data && (wanted.empty() || region.pre->chunk_bytes == wanted.front()->pre->chunk_bytes)) wanted.push_back(&region);
  }
  Watch* const watch = m_driver.watch();
  if (wanted.empty() || watch == nullptr) return {};
  Result<std::vector<const Region*>> remembered = watch->remember(wanted);
  if (!remembered) return remembered.error();
  m_remembered = std::move(remembered.value());
  for (const Region* region : m_remembered) m_changed[region];
  return {};
}

Result<void> Unchanged::look() {
  if (m_remembered.empty()) return {};
  const Result<std::vector<std::uint32_t>> words = m_driver.watch()->changed(m_remembered.front()->pre->chunk_bytes);
  if (!words) return words.error();
  std::size_t word = 0;
  for (const Region* region : m_remembered) {
    std::vector<bool>& changed = m_changed[region];
    changed.clear();
    for (std::size_t chunk = 0; chunk < region->pre->chunks.size(); ++chunk) changed.push_back(words.value().at(word++) != 0);
  }
  return {};
}

void Unchanged::forget() {
  m_remembered.clear();
  m_changed.clear();
}

bool Unchanged::is_known(const Region& region, std::size_t chunk) const {
  const auto found = m_changed.find(&region);
  return found != m_changed.end() && chunk < found->second.size() && !found->second[chunk];
}

}  // namespace kerncap::replay
