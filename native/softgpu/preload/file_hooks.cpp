// Functions of the C library that look at files and open them: only conversion and delegation. folder_hooks.cpp has those that list
// folders; libc_hooks.cpp says what a preload may not do.
// The build's setting would turn open into open64, and both are defined here.
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstring>

#include "softgpu/preload/fake_files.hpp"
#include "softgpu/preload/real.hpp"

#define KERNCAP_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace kerncap::softgpu;
using Found = FileTree::Found;

static_assert(sizeof(struct stat) == sizeof(struct stat64));

[[nodiscard]] int answer_open(const Found& found, int flags) noexcept {
  return found.node != nullptr ? open_node(*found.node, flags) : fail(found.error);
}

[[nodiscard]] Found find_to_open(int folder, const char* path, int flags) noexcept {
  return find_file(folder, path, (flags & O_NOFOLLOW) == 0);
}

[[nodiscard]] int answer_stat(const Found& found, void* out) noexcept {
  if (found.node == nullptr) return fail(found.error);
  describe(*found.node, *static_cast<struct stat*>(out));
  return 0;
}

// Of a path, or of the descriptor itself where the path is empty.
[[nodiscard]] Found find_to_stat(int folder, const char* path, int flags) noexcept {
  if ((flags & AT_EMPTY_PATH) != 0 && (path == nullptr || *path == '\0')) return {.node = node_of(folder)};
  return find_file(folder, path, (flags & AT_SYMLINK_NOFOLLOW) == 0);
}

[[nodiscard]] int answer_access(const Found& found, int mode) noexcept {
  if (found.node == nullptr) return fail(found.error);
  const FileTree::Kind kind = found.node->kind;
  const bool may_write = kind == FileTree::Kind::device || kind == FileTree::Kind::link;
  const bool may_execute = kind == FileTree::Kind::folder;
  if (((mode & W_OK) != 0 && !may_write) || ((mode & X_OK) != 0 && !may_execute)) return fail(EACCES);
  return 0;
}

[[nodiscard]] FILE* answer_fopen(const Found& found, const char* mode) noexcept {
  const bool reads = mode[0] == 'r' && std::strchr(mode, '+') == nullptr;
  const int fd = answer_open(found, O_CLOEXEC | (reads ? O_RDONLY : O_RDWR));
  return fd < 0 ? nullptr : fdopen(fd, mode);
}

[[nodiscard]] ssize_t answer_readlink(const Found& found, char* out, size_t size_bytes) noexcept {
  if (found.node == nullptr) return fail(found.error);
  if (found.node->kind != FileTree::Kind::link) return fail(EINVAL);
  const size_t copied = std::min(size_bytes, found.node->text.size());
  std::memcpy(out, found.node->text.data(), copied);
  return static_cast<ssize_t>(copied);
}

// resolved: PATH_MAX bytes, or null, for memory that the caller frees.
[[nodiscard]] char* answer_realpath(const Found& found, char* resolved) noexcept {
  if (found.node == nullptr) {
    errno = found.error;
    return nullptr;
  }
  const char* path = found.node->path.c_str();
  return resolved != nullptr ? std::strcpy(resolved, path) : strdup(path);
}

[[nodiscard]] mode_t mode_argument(int flags, va_list arguments) noexcept {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(arguments, unsigned)) : 0;
}

}  // namespace

#define KERNCAP_OPEN(name)                                                                    \
  KERNCAP_EXPORT int name(const char* path, int flags, ...) {                                 \
    const Found found = find_to_open(AT_FDCWD, path, flags);                                  \
    if (found.is_ours()) return answer_open(found, flags);                                    \
    va_list arguments;                                                                        \
    va_start(arguments, flags);                                                               \
    const mode_t mode = mode_argument(flags, arguments);                                      \
    va_end(arguments);                                                                        \
    KERNCAP_REAL(name);                                                                       \
    return real(path, flags, mode);                                                           \
  }
#define KERNCAP_OPENAT(name)                                                                  \
  KERNCAP_EXPORT int name(int folder, const char* path, int flags, ...) {                     \
    const Found found = find_to_open(folder, path, flags);                                    \
    if (found.is_ours()) return answer_open(found, flags);                                    \
    va_list arguments;                                                                        \
    va_start(arguments, flags);                                                               \
    const mode_t mode = mode_argument(flags, arguments);                                      \
    va_end(arguments);                                                                        \
    KERNCAP_REAL(name);                                                                       \
    return real(folder, path, flags, mode);                                                   \
  }
KERNCAP_OPEN(open)
KERNCAP_OPEN(open64)
KERNCAP_OPENAT(openat)
KERNCAP_OPENAT(openat64)

// What open() becomes where the compiler checks its arguments (_FORTIFY_SOURCE).
KERNCAP_EXPORT int __open_2(const char* path, int flags) { return open(path, flags); }
KERNCAP_EXPORT int __open64_2(const char* path, int flags) { return open64(path, flags); }
KERNCAP_EXPORT int __openat_2(int folder, const char* path, int flags) { return openat(folder, path, flags); }
KERNCAP_EXPORT int __openat64_2(int folder, const char* path, int flags) { return openat64(folder, path, flags); }

#define KERNCAP_FOPEN(name)                                                                   \
  KERNCAP_EXPORT FILE* name(const char* path, const char* mode) {                             \
    const Found found = find_file(AT_FDCWD, path, true);                                      \
    if (found.is_ours()) return answer_fopen(found, mode);                                    \
    KERNCAP_REAL(name);                                                                       \
    return real(path, mode);                                                                  \
  }
KERNCAP_FOPEN(fopen)
KERNCAP_FOPEN(fopen64)

#define KERNCAP_STAT(name, status, flags)                                                     \
  KERNCAP_EXPORT int name(const char* path, struct status* out) noexcept {                    \
    const Found found = find_to_stat(AT_FDCWD, path, flags);                                  \
    if (found.is_ours()) return answer_stat(found, out);                                      \
    KERNCAP_REAL(name);                                                                       \
    return real(path, out);                                                                   \
  }
KERNCAP_STAT(stat, stat, 0)
KERNCAP_STAT(stat64, stat64, 0)
KERNCAP_STAT(lstat, stat, AT_SYMLINK_NOFOLLOW)
KERNCAP_STAT(lstat64, stat64, AT_SYMLINK_NOFOLLOW)

#define KERNCAP_FSTAT(name, status)                                                           \
  KERNCAP_EXPORT int name(int fd, struct status* out) noexcept {                              \
    if (const FileTree::Node* node = node_of(fd)) return answer_stat({.node = node}, out);    \
    KERNCAP_REAL(name);                                                                       \
    return real(fd, out);                                                                     \
  }
KERNCAP_FSTAT(fstat, stat)
KERNCAP_FSTAT(fstat64, stat64)

#define KERNCAP_FSTATAT(name, status)                                                         \
  KERNCAP_EXPORT int name(int folder, const char* path, struct status* out, int flags) noexcept { \
    const Found found = find_to_stat(folder, path, flags);                                    \
    if (found.is_ours()) return answer_stat(found, out);                                      \
    KERNCAP_REAL(name);                                                                       \
    return real(folder, path, out, flags);                                                    \
  }
KERNCAP_FSTATAT(fstatat, stat)
KERNCAP_FSTATAT(fstatat64, stat64)

// How programs that were linked before glibc 2.33 ask, packages from PyPI among them. On x86-64 there was one version of the
// structure.
extern "C" {
__attribute__((visibility("default"))) int __xstat(int, const char* path, struct stat* out) noexcept { return stat(path, out); }
__attribute__((visibility("default"))) int __xstat64(int, const char* path, struct stat64* out) noexcept { return stat64(path, out); }
__attribute__((visibility("default"))) int __lxstat(int, const char* path, struct stat* out) noexcept { return lstat(path, out); }
__attribute__((visibility("default"))) int __lxstat64(int, const char* path, struct stat64* out) noexcept { return lstat64(path, out); }
__attribute__((visibility("default"))) int __fxstat(int, int fd, struct stat* out) noexcept { return fstat(fd, out); }
__attribute__((visibility("default"))) int __fxstat64(int, int fd, struct stat64* out) noexcept { return fstat64(fd, out); }
__attribute__((visibility("default"))) int __fxstatat(int, int folder, const char* path, struct stat* out, int flags) noexcept {
  return fstatat(folder, path, out, flags);
}
__attribute__((visibility("default"))) int __fxstatat64(int, int folder, const char* path, struct stat64* out, int flags) noexcept {
  return fstatat64(folder, path, out, flags);
}
}

KERNCAP_EXPORT int statx(int folder, const char* path, int flags, unsigned mask, struct statx* out) noexcept {
  const Found found = find_to_stat(folder, path, flags);
  if (!found.is_ours()) {
    KERNCAP_REAL(statx);
    return real(folder, path, flags, mask, out);
  }
  struct stat status {};
  if (answer_stat(found, &status) != 0) return -1;
  *out = {};
  out->stx_mask = STATX_BASIC_STATS;
  out->stx_blksize = static_cast<unsigned>(status.st_blksize);
  out->stx_nlink = static_cast<unsigned>(status.st_nlink);
  out->stx_mode = static_cast<unsigned short>(status.st_mode);
  out->stx_ino = status.st_ino;
  out->stx_size = static_cast<unsigned long long>(status.st_size);
  out->stx_rdev_major = major(status.st_rdev);
  out->stx_rdev_minor = minor(status.st_rdev);
  out->stx_dev_major = major(status.st_dev);
  out->stx_dev_minor = minor(status.st_dev);
  return 0;
}

#define KERNCAP_ACCESS(name)                                                                  \
  KERNCAP_EXPORT int name(const char* path, int mode) noexcept {                              \
    const Found found = find_file(AT_FDCWD, path, true);                                      \
    if (found.is_ours()) return answer_access(found, mode);                                   \
    KERNCAP_REAL(name);                                                                       \
    return real(path, mode);                                                                  \
  }
KERNCAP_ACCESS(access)
KERNCAP_ACCESS(eaccess)
KERNCAP_ACCESS(euidaccess)

KERNCAP_EXPORT int faccessat(int folder, const char* path, int mode, int flags) noexcept {
  const Found found = find_to_stat(folder, path, flags);
  if (found.is_ours()) return answer_access(found, mode);
  KERNCAP_REAL(faccessat);
  return real(folder, path, mode, flags);
}

KERNCAP_EXPORT ssize_t readlink(const char* path, char* out, size_t size_bytes) noexcept {
  const Found found = find_file(AT_FDCWD, path, false);
  if (found.is_ours()) return answer_readlink(found, out, size_bytes);
  KERNCAP_REAL(readlink);
  return real(path, out, size_bytes);
}

KERNCAP_EXPORT ssize_t readlinkat(int folder, const char* path, char* out, size_t size_bytes) noexcept {
  const Found found = find_file(folder, path, false);
  if (found.is_ours()) return answer_readlink(found, out, size_bytes);
  KERNCAP_REAL(readlinkat);
  return real(folder, path, out, size_bytes);
}

// Access lists and labels, which ls asks for: the file system has none.
#define KERNCAP_GETXATTR(name, follow)                                                        \
  KERNCAP_EXPORT ssize_t name(const char* path, const char* attribute, void* out, size_t size_bytes) noexcept { \
    const Found found = find_file(AT_FDCWD, path, follow);                                    \
    if (found.is_ours()) return fail(found.node != nullptr ? ENOTSUP : found.error);          \
    KERNCAP_REAL(name);                                                                       \
    return real(path, attribute, out, size_bytes);                                            \
  }
#define KERNCAP_LISTXATTR(name, follow)                                                       \
  KERNCAP_EXPORT ssize_t name(const char* path, char* out, size_t size_bytes) noexcept {      \
    const Found found = find_file(AT_FDCWD, path, follow);                                    \
    if (found.is_ours()) return fail(found.node != nullptr ? ENOTSUP : found.error);          \
    KERNCAP_REAL(name);                                                                       \
    return real(path, out, size_bytes);                                                       \
  }
KERNCAP_GETXATTR(getxattr, true)
KERNCAP_GETXATTR(lgetxattr, false)
KERNCAP_LISTXATTR(listxattr, true)
KERNCAP_LISTXATTR(llistxattr, false)

KERNCAP_EXPORT char* realpath(const char* path, char* resolved) noexcept {
  const Found found = find_file(AT_FDCWD, path, true);
  if (found.is_ours()) return answer_realpath(found, resolved);
  KERNCAP_REAL(realpath);
  return real(path, resolved);
}

KERNCAP_EXPORT char* canonicalize_file_name(const char* path) noexcept { return realpath(path, nullptr); }

// The same where the compiler knows how large the buffer is: too small a one ends the program, as in the C library.
extern "C" {
__attribute__((visibility("default"))) ssize_t __readlink_chk(const char* path, char* out, size_t size_bytes, size_t room) noexcept {
  return size_bytes <= room ? readlink(path, out, size_bytes) : (abort(), -1);
}
__attribute__((visibility("default"))) ssize_t __readlinkat_chk(int folder, const char* path, char* out, size_t size_bytes,
                                                                size_t room) noexcept {
  return size_bytes <= room ? readlinkat(folder, path, out, size_bytes) : (abort(), -1);
}
__attribute__((visibility("default"))) char* __realpath_chk(const char* path, char* resolved, size_t room) noexcept {
  return room >= PATH_MAX ? realpath(path, resolved) : (abort(), nullptr);
}
}
