// Functions of the C library that the preload replaces, but for those of files (file_hooks.cpp, folder_hooks.cpp): only conversion
// and delegation.
//
// What a preload may not do: write to standard output, let an exception out, take a lock that the program may hold
// around these calls. A path or descriptor that is not ours goes to the real function at once. Programs that are
// linked statically or make raw system calls bypass all of this, and see no GPU.
// The build's setting would turn mmap into mmap64, and both are defined here.
#undef _FILE_OFFSET_BITS
#include <linux/ioctl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>

#include "softgpu/device/driver.hpp"
#include "softgpu/device/shared_buffer.hpp"
#include "softgpu/memory/host_guard.hpp"
#include "softgpu/preload/real.hpp"

#define KERNCAP_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace kerncap::softgpu;

constexpr unsigned k_kfd_ioctl_type = 'K';

[[gnu::constructor]] void follow_forks() { pthread_atfork(nullptr, nullptr, [] { Driver::forget_in_child(); }); }

}  // namespace

KERNCAP_EXPORT int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (_IOC_TYPE(request) == k_kfd_ioctl_type) {
    if (Driver* driver = Driver::existing()) {
      if (driver->handle_of(fd).kind == HandleKind::kfd) return driver->ioctl(request, argument);
    }
  }
  KERNCAP_REAL(ioctl);
  return real(fd, request, argument);
}

// A handler for faults that the program installs after ours stands behind ours.
KERNCAP_EXPORT int sigaction(int number, const struct sigaction* action, struct sigaction* old) noexcept {
  if (HostGuard::owns(number)) return HostGuard::replace_program_action(number, action, old);
  KERNCAP_REAL(sigaction);
  return real(number, action, old);
}

KERNCAP_EXPORT sighandler_t signal(int number, sighandler_t handler) noexcept {
  if (!HostGuard::owns(number)) {
    KERNCAP_REAL(signal);
    return real(number, handler);
  }
  struct sigaction action {}, before {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, number);
  HostGuard::replace_program_action(number, &action, &before);
  return before.sa_handler;
}

// Maps of our own buffers need no help: the descriptor is the memory file. Only those of another process do.
KERNCAP_EXPORT void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) noexcept {
  if (const ForeignMap foreign = foreign_map(static_cast<std::uint64_t>(offset)); foreign.fd > 0) [[unlikely]] {
    fd = foreign.fd;
    offset = static_cast<off_t>(foreign.offset);
  }
  const long result = syscall(SYS_mmap, address, length, protection, flags, fd, offset);
  return reinterpret_cast<void*>(result);
}
KERNCAP_EXPORT void* mmap64(void* address, size_t length, int protection, int flags, int fd, off64_t offset) noexcept
    __attribute__((alias("mmap")));
