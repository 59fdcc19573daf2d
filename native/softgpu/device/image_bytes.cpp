#include "softgpu/device/image_bytes.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace kerncap::softgpu {
namespace {

constexpr std::uint64_t k_page_bytes = 4096;

constexpr std::uint64_t k_most_bytes = std::uint64_t{1} << 40;

// Whether a byte of each page of [begin, end) can be read. The kernel copies it; where it cannot, it says so and nobody faults.
// Where a sandbox forbids the call, all counts as readable.
[[nodiscard]] bool can_read(const std::byte* begin, const std::byte* end) noexcept {
  constexpr std::size_t k_most = 512;
  std::byte into[k_most];
  iovec from[k_most];
  auto address = reinterpret_cast<std::uint64_t>(begin);
  const auto last = reinterpret_cast<std::uint64_t>(end);
  if (last < address) return false;
  while (address < last) {
    std::size_t count = 0;
    for (; count < k_most && address < last; ++count, address = (address / k_page_bytes + 1) * k_page_bytes) {
      from[count] = {reinterpret_cast<void*>(address), 1};
    }
    const iovec to{into, count};
    const ssize_t copied = process_vm_readv(getpid(), &to, 1, from, count, 0);
    if (copied < 0) return errno != EFAULT;
    if (static_cast<std::size_t>(copied) != count) return false;
  }
  return true;
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
