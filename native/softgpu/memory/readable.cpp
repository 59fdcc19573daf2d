#include "softgpu/memory/readable.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace kerncap::softgpu {

bool is_readable(std::uint64_t begin, std::uint64_t end) noexcept {
  constexpr std::uint64_t k_page_bytes = 4096;
  constexpr std::size_t k_most = 512;
  std::byte into[k_most];
  iovec from[k_most];
  if (end < begin) return false;
  for (std::uint64_t at = begin; at < end;) {
    std::size_t count = 0;
    for (; count < k_most && at < end; ++count, at = (at / k_page_bytes + 1) * k_page_bytes) from[count] = {reinterpret_cast<void*>(at), 1};
    const iovec to{into, count};
    const ssize_t copied = process_vm_readv(getpid(), &to, 1, from, count, 0);
    if (copied < 0) return errno != EFAULT;
    if (static_cast<std::size_t>(copied) != count) return false;
  }
  return true;
}

}  // namespace kerncap::softgpu
