#include "softgpu/device/msgpack.hpp"

namespace kerncap::softgpu {
namespace {

constexpr unsigned k_most_depth = 16;  // metadata has 5

}  // namespace

std::optional<std::uint8_t> MsgpackReader::first() const noexcept {
  return m_bytes.empty() ? std::nullopt : std::optional(static_cast<std::uint8_t>(m_bytes[0]));
}

bool MsgpackReader::drop(std::uint64_t size_bytes) noexcept {
  if (size_bytes > m_bytes.size()) return false;
  m_bytes = m_bytes.subspan(size_bytes);
  return true;
}

std::optional<std::uint64_t> MsgpackReader::number_of(std::uint8_t wanted, unsigned size_bytes) noexcept {
  if (first() != wanted || m_bytes.size() <= size_bytes) return std::nullopt;
  std::uint64_t value = 0;
  for (unsigned i = 1; i <= size_bytes; ++i) value = value << 8 | static_cast<std::uint8_t>(m_bytes[i]);
  m_bytes = m_bytes.subspan(size_bytes + 1);
  return value;
}

std::optional<std::uint64_t> MsgpackReader::whole_number() noexcept {
  const auto byte = first();
  if (!byte) return std::nullopt;
  if (*byte < 0x80) return number_of(*byte, 0) ? std::optional<std::uint64_t>(*byte) : std::nullopt;
  if (*byte >= 0xCC && *byte <= 0xCF) return number_of(*byte, 1U << (*byte - 0xCC));
  if (*byte >= 0xD0 && *byte <= 0xD3) {  // signed ones
    const unsigned size_bytes = 1U << (*byte - 0xD0);
    const auto value = number_of(*byte, size_bytes);
    if (value && (*value >> (8 * size_bytes - 1)) == 0) return value;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> MsgpackReader::count_of(std::uint8_t fix, std::uint8_t fix_mask, std::uint8_t wide) noexcept {
  const auto byte = first();
  if (!byte) return std::nullopt;
  if ((*byte & ~fix_mask) == fix) return number_of(*byte, 0) ? std::optional<std::uint32_t>(*byte & fix_mask) : std::nullopt;
  const auto value = *byte == wide ? number_of(wide, 2) : number_of(static_cast<std::uint8_t>(wide + 1), 4);
  return value ? std::optional(static_cast<std::uint32_t>(*value)) : std::nullopt;
}

std::optional<std::uint32_t> MsgpackReader::array() noexcept { return count_of(0x90, 0x0F, 0xDC); }
std::optional<std::uint32_t> MsgpackReader::map() noexcept { return count_of(0x80, 0x0F, 0xDE); }

std::optional<std::string_view> MsgpackReader::string() noexcept {
  auto size_bytes = first() == 0xD9 ? number_of(0xD9, 1) : std::optional<std::uint64_t>();
  if (!size_bytes) {
    if (const auto count = count_of(0xA0, 0x1F, 0xDA)) size_bytes = *count;
  }
  const auto* begin = reinterpret_cast<const char*>(m_bytes.data());
  if (!size_bytes || !drop(*size_bytes)) return std::nullopt;
  return std::string_view(begin, *size_bytes);
}

bool MsgpackReader::skip(unsigned depth) noexcept {
  const auto byte = first();
  if (!byte || depth > k_most_depth) return false;
  if (const auto count = array()) {
    for (std::uint32_t i = 0; i < *count; ++i)
      if (!skip(depth + 1)) return false;
    return true;
  }
  if (const auto count = map()) {
    for (std::uint64_t i = 0; i < std::uint64_t{*count} * 2; ++i)
      if (!skip(depth + 1)) return false;
    return true;
  }
  if (string()) return true;
  if (*byte < 0x80 || *byte >= 0xE0 || *byte == 0xC0 || *byte == 0xC2 || *byte == 0xC3) return drop(1);  // small, nil, booleans
  if (*byte >= 0xCC && *byte <= 0xD3) return drop(1 + (std::uint64_t{1} << ((*byte - 0xCC) % 4)));
  if (*byte == 0xCA || *byte == 0xCB) return drop(*byte == 0xCA ? 5 : 9);  // floating point
  if (*byte >= 0xC4 && *byte <= 0xC6) {                                   // binary
    const auto size_bytes = number_of(*byte, 1U << (*byte - 0xC4));
    return size_bytes && drop(*size_bytes);
  }
  return false;  // extensions: metadata has none
}

}  // namespace kerncap::softgpu
