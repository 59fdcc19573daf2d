// Functions of the C library that the preload replaces: only conversion and delegation.
//
// What a preload may not do: write to standard output, let an exception out, take a lock that the program may hold
// around these calls. A path or descriptor that is not ours goes to the real function at once. Programs that are
// linked statically or make raw system calls bypass all of this, and see no GPU.
// The build's setting would turn open into open64, and both are defined here.
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "softgpu/device/driver.hpp"
#include "softgpu/device/shared_buffer.hpp"
#include "softgpu/memory/host_guard.hpp"
#include "softgpu/preload/fake_folder.hpp"
#include "softgpu/preload/real.hpp"

#define KERNCAP_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace kerncap::softgpu;

constexpr unsigned k_kfd_ioctl_type = 'K';

// Cheap: most paths differ at the first letters.
[[nodiscard]] bool may_be_ours(const char* path) noexcept {
  if (path == nullptr) return false;
  const std::string_view view(path);
  return view.starts_with("/dev/kfd") || view.starts_with("/dev/dri/renderD") || Topology::covers(view) ||
         view.starts_with("/sys/module/amdgpu");
}

[[nodiscard]] Driver* driver_for(const char* path) noexcept {
  return may_be_ours(path) ? Driver::instance() : nullptr;
}

// A memory file with the text: something that can be read, sought and closed like any other file.
[[nodiscard]] int open_text(const std::string& text, int flags) noexcept {
  const int fd = memfd_create("kerncap-softgpu-text", (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0);
  if (fd < 0) return -1;
  if (pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    close(fd);
    errno = EIO;
    return -1;
  }
  return fd;
}

enum class Answer : std::uint8_t { ours, pass_on };

[[nodiscard]] Answer open_ours(const char* path, int flags, int& fd) noexcept {
  Driver* driver = driver_for(path);
  if (driver == nullptr) return Answer::pass_on;
  if (const auto node = driver->topology().device(path); node.device != Topology::Device::none) {
    fd = driver->open_device(node, flags);
    return Answer::ours;
  }
  if (const std::string* text = driver->topology().file(path)) {
    fd = open_text(*text, flags);
    return Answer::ours;
  }
  if (!Topology::covers(path)) return Answer::pass_on;
  fd = -1;
  errno = ENOENT;
  return Answer::ours;
}

[[nodiscard]] Answer stat_ours(const char* path, struct stat* out) noexcept {
  Driver* driver = driver_for(path);
  if (driver == nullptr) return Answer::pass_on;
  const Topology& topology = driver->topology();
  const std::string* text = topology.file(path);
  const bool device = topology.device(path).device != Topology::Device::none;
  const bool folder = topology.folder(path) != nullptr;
  if (text == nullptr && !device && !folder) {
    if (!Topology::covers(path)) return Answer::pass_on;
    errno = ENOENT;
    return Answer::ours;
  }
  if (out != nullptr) {
    *out = {};
    out->st_mode = folder ? S_IFDIR | 0555 : device ? S_IFCHR | 0666 : S_IFREG | 0444;
    out->st_nlink = 1;
    out->st_size = text != nullptr ? static_cast<off_t>(text->size()) : 0;
    out->st_blksize = 4096;
  }
  errno = 0;
  return Answer::ours;
}

[[nodiscard]] mode_t mode_argument(int flags, va_list arguments) noexcept {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(arguments, unsigned)) : 0;
}

[[gnu::constructor]] void follow_forks() { pthread_atfork(nullptr, nullptr, [] { Driver::forget_in_child(); }); }

}  // namespace

KERNCAP_EXPORT int open(const char* path, int flags, ...) {
  int fd = -1;
  if (open_ours(path, flags, fd) == Answer::ours) return fd;
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  KERNCAP_REAL(open);
  return real(path, flags, mode);
}

KERNCAP_EXPORT int open64(const char* path, int flags, ...) {
  int fd = -1;
  if (open_ours(path, flags, fd) == Answer::ours) return fd;
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  KERNCAP_REAL(open64);
  return real(path, flags, mode);
}

KERNCAP_EXPORT int openat(int folder, const char* path, int flags, ...) {
  int fd = -1;
  if (open_ours(path, flags, fd) == Answer::ours) return fd;
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  KERNCAP_REAL(openat);
  return real(folder, path, flags, mode);
}

KERNCAP_EXPORT FILE* fopen(const char* path, const char* mode) {
  int fd = -1;
  if (open_ours(path, O_CLOEXEC, fd) == Answer::ours) return fd < 0 ? nullptr : fdopen(fd, mode);
  KERNCAP_REAL(fopen);
  return real(path, mode);
}

KERNCAP_EXPORT FILE* fopen64(const char* path, const char* mode) {
  int fd = -1;
  if (open_ours(path, O_CLOEXEC, fd) == Answer::ours) return fd < 0 ? nullptr : fdopen(fd, mode);
  KERNCAP_REAL(fopen64);
  return real(path, mode);
}

KERNCAP_EXPORT int access(const char* path, int mode) {
  if (stat_ours(path, nullptr) == Answer::ours) return errno == 0 ? 0 : -1;
  KERNCAP_REAL(access);
  return real(path, mode);
}

KERNCAP_EXPORT int stat(const char* path, struct stat* out) noexcept {
  if (stat_ours(path, out) == Answer::ours) return errno == 0 ? 0 : -1;
  KERNCAP_REAL(stat);
  return real(path, out);
}

KERNCAP_EXPORT int lstat(const char* path, struct stat* out) noexcept {
  if (stat_ours(path, out) == Answer::ours) return errno == 0 ? 0 : -1;
  KERNCAP_REAL(lstat);
  return real(path, out);
}

KERNCAP_EXPORT DIR* opendir(const char* path) {
  if (Driver* driver = driver_for(path); driver != nullptr && Topology::covers(path)) {
    const auto* names = driver->topology().folder(path);
    if (names == nullptr) {
      errno = ENOENT;
      return nullptr;
    }
    return FakeFolder::open(*names);
  }
  KERNCAP_REAL(opendir);
  return real(path);
}

KERNCAP_EXPORT struct dirent* readdir(DIR* folder) {
  if (FakeFolder* fake = FakeFolder::of(folder)) return fake->next();
  KERNCAP_REAL(readdir);
  return real(folder);
}

KERNCAP_EXPORT struct dirent64* readdir64(DIR* folder) {
  static_assert(sizeof(dirent) == sizeof(dirent64));
  if (FakeFolder* fake = FakeFolder::of(folder)) return reinterpret_cast<dirent64*>(fake->next());
  KERNCAP_REAL(readdir64);
  return real(folder);
}

KERNCAP_EXPORT int closedir(DIR* folder) {
  if (FakeFolder::close(folder)) return 0;
  KERNCAP_REAL(closedir);
  return real(folder);
}

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
