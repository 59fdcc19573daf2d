#include "softgpu/device/image_bytes.hpp"

#include "softgpu/memory/readable.hpp"

namespace kerncap::softgpu {
namespace {


constexpr std::uint64_t k_most_bytes = std::uint64_t{1} << 40;

[[nodiscard]] bool can_read(const std::byte* begin, const std::byte* end) noexcept {
  return is_readable(reinterpret_cast<std::uint64_t>(begin), reinterpret_cast<std::uint64_t>(end));
}

}  // namespace

bool ImageBytes::holds(std::uint64_t offset, std::uint64_t size_bytes) noexcept {
  if (offset > k_most_bytes || size_bytes > k_most_bytes) return false;
  const std::uint64_t end = offset + size_bytes;
  if (m_extent == Extent::known) return end <= m_end;
  if (end <= m_end || size_bytes == 0) return true;
  // Memory up to there, as HIP may copy the whole; of a file what is asked for.
  const bool grows = m_extent == Extent::memory || offset <= m_end;
  if (!can_read(m_data + (grows ? m_end : offset), m_data + end)) return false;
  if (grows) m_end = end;
  return true;
}

bool ImageBytes::reaches(std::uint64_t offset, std::uint64_t size_bytes) noexcept {
  if (m_extent != Extent::file || offset > k_most_bytes || size_bytes > k_most_bytes) return holds(offset, size_bytes);
  const std::byte* begin = m_data + offset;
  return size_bytes == 0 || (can_read(begin, begin + 1) && can_read(begin + size_bytes - 1, begin + size_bytes));
}

}  // namespace kerncap::softgpu
