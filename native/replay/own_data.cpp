#include "replay/own_data.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace kerncap::replay {
namespace {

constexpr std::uint64_t k_most_bytes = std::uint64_t{16} << 20;

}  // namespace

core::Result<bool> OwnData::look() {
  core::Hasher hasher;
  std::vector<std::byte> data;
  std::uint64_t left = k_most_bytes;
  for (const AddressRange& part : m_code.own_data()) {
    data.resize(std::min(part.bytes, left));
    left -= data.size();
    if (core::Result<void> read = m_driver.read(m_place, part.base, data); !read) return read.error();
    hasher.update(data);
  }
  const core::Digest now = hasher.finish();
  return std::exchange(m_last, now) != now;
}

}  // namespace kerncap::replay
