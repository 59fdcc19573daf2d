// Reads by way of the process's own memory file: such a read fails where a load would fault.
#include "capture/own_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace kerncap::capture {

bool read_own_memory(std::uint64_t address, std::span<std::byte> into) noexcept {
  // Never closed: captures go on while static destructors run.
  static const int memory = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  for (std::size_t done = 0; done < into.size();) {
    const ssize_t count = ::pread(memory, &into[done], into.size() - done, static_cast<off_t>(address + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace kerncap::capture
