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
  std::vector<AddressRange> parts = m_code.own_data();
  // Constants and instructions are writable on AMD GPUs, too.
  parts.push_back({m_code.load_address, m_code.load_bytes});
  for (const AddressRange& part : parts) {
    if (part.bytes == 0) continue;
    data.resize(std::min(part.bytes, left));
    left -= data.size();
    if (core::Result<void> read = m_driver.read(m_place, part.base, data); !read) return read.error();
    hasher.update(data);
  }
  const core::Digest now = hasher.finish();
  return std::exchange(m_last, now) != now;
}

core::Result<void> OwnData::keep() {
  std::uint64_t left = k_most_bytes;
  for (const AddressRange& part : m_code.own_data()) {
    std::vector<std::byte> data(std::min(part.bytes, left));
    left -= data.size();
    if (data.empty()) continue;
    if (core::Result<void> read = m_driver.read(m_place, part.base, data); !read) return read;
    m_kept.emplace_back(part.base, std::move(data));
  }
  return {};
}

core::Result<void> OwnData::put_back() {
  for (const auto& [address, data] : m_kept) {
    if (core::Result<void> written = m_driver.write(m_place, address, data); !written) return written;
  }
  return {};
}

}  // namespace kerncap::replay
