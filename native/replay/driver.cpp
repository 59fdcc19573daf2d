// What is the same in each driver.
#include "replay/driver.hpp"

#include <algorithm>
#include <cstring>

#include "replay/populate.hpp"

namespace kerncap::replay {

using core::Result;

std::optional<std::uint64_t> Code::variable(const std::string&, std::uint64_t) const { return std::nullopt; }

bool Driver::holds_with_pages(const Range& range) const noexcept {
  return m_traits.holds_with_pages || (!range.is_code() && range.first->kind == Kind::host_registered);
}

bool Driver::turn_on(std::string_view word) const noexcept {
  const auto found = m_traits.switches.find(word);
  if (found == m_traits.switches.end()) return false;
  return *found->second = true;
}

Result<void> Driver::write(const Region& region, std::uint64_t address, std::span<const std::byte> data) {
  note_write(address, data.size());
  for (std::size_t done = 0, piece = 0; done < data.size(); done += piece) {
    piece = std::min(m_opened.staging.bytes, data.size() - done);
    if (const InPlace here = in_place(address + done, piece); here.memory != nullptr) {
      populate(here.memory, piece);
      std::memcpy(here.memory, &data[done], piece);
      continue;
    }
    const std::size_t buffer = m_next_staging++ % m_opened.staging.count;
    const Result<std::byte*> memory = staging(buffer);
    if (!memory) return memory.error();
    std::memcpy(memory.value(), &data[done], piece);
    if (Result<void> sent = send(buffer, region, address + done, piece); !sent) return sent;
  }
  return {};
}

}  // namespace kerncap::replay
