// The executable's own mmap comes before the C library's, also for libcuda. It may do nothing but the system call.
// Both of its names are defined: with 64-bit offsets the headers give the one to the other.
#undef _FILE_OFFSET_BITS
#include "cuda/driver/wanted_address.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kerncap::cuda {
namespace {

thread_local std::uint64_t t_wanted = 0;

void* system_mmap(void* address, std::size_t bytes, int rights, int flags, int file, off_t offset) noexcept {
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, bytes, rights, flags, file, offset));
}

void* placed_mmap(void* address, std::size_t bytes, int rights, int flags, int file, off_t offset) noexcept {
  const bool is_room = address == nullptr && rights == PROT_NONE && (flags & MAP_ANONYMOUS) != 0;
  if (t_wanted != 0 && is_room) {
    void* const wanted = reinterpret_cast<void*>(t_wanted);
    void* const got = system_mmap(wanted, bytes, rights, flags | MAP_FIXED_NOREPLACE, file, offset);
    t_wanted = 0;
    if (got == wanted) return got;
    if (got != MAP_FAILED) ::munmap(got, bytes);  // of a system that does not know the flag
  }
  return system_mmap(address, bytes, rights, flags, file, offset);
}

}  // namespace

WantedAddress::WantedAddress(std::uint64_t base) noexcept { t_wanted = base; }
WantedAddress::~WantedAddress() { t_wanted = 0; }

}  // namespace kerncap::cuda

extern "C" __attribute__((visibility("default"))) void* mmap(void* address, std::size_t bytes, int rights, int flags, int file,
                                                             off_t offset) noexcept {
  return kerncap::cuda::placed_mmap(address, bytes, rights, flags, file, offset);
}

extern "C" __attribute__((visibility("default"))) void* mmap64(void* address, std::size_t bytes, int rights, int flags, int file,
                                                               off_t offset) noexcept {
  return kerncap::cuda::placed_mmap(address, bytes, rights, flags, file, offset);
}
