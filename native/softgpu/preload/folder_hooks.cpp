// Functions of the C library that list folders: only conversion and delegation. libc_hooks.cpp says what a preload may not do.
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "softgpu/device/system_files.hpp"
#include "softgpu/preload/fake_files.hpp"
#include "softgpu/preload/fake_folder.hpp"
#include "softgpu/preload/real.hpp"

#define KERNCAP_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace kerncap::softgpu;

static_assert(sizeof(dirent) == sizeof(dirent64) && offsetof(dirent, d_name) == offsetof(dirent64, d_name));

[[nodiscard]] DIR* fail_to_open(int error) noexcept {
  errno = error;
  return nullptr;
}

[[nodiscard]] DIR* real_opendir(const char* path) {
  KERNCAP_REAL(opendir);
  return real(path);
}

// machine: of the same path; null where the machine has none.
[[nodiscard]] DIR* open_folder(const FileTree::Node& node, DIR* machine) {
  const int before = errno;
  int fd = -1;
  if (machine == nullptr && (fd = open_node(node, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) return nullptr;
  errno = before;
  return FakeFolder::open(*system_files(), node, machine, fd);
}

[[nodiscard]] int next_into(FakeFolder& folder, dirent* out, dirent** result) noexcept {
  const dirent* entry = folder.next();
  if (entry != nullptr) *out = *entry;
  *result = entry != nullptr ? out : nullptr;
  return 0;
}

using Filter = int (*)(const dirent*);
using Compare = int (*)(const dirent**, const dirent**);

// As scandir() does, which in the C library does not come through our opendir().
[[nodiscard]] int scan(DIR* folder, dirent*** list, Filter filter, Compare compare) {
  FakeFolder& fake = *FakeFolder::of(folder);
  dirent** found = nullptr;
  std::size_t count = 0;
  while (const dirent* entry = fake.next()) {
    if (filter != nullptr && filter(entry) == 0) continue;
    found = static_cast<dirent**>(realloc(found, (count + 1) * sizeof *found));
    found[count] = static_cast<dirent*>(malloc(sizeof **found));
    *found[count++] = *entry;
  }
  closedir(folder);
  if (compare != nullptr) {
    std::sort(found, found + count, [compare](const dirent* a, const dirent* b) { return compare(&a, &b) < 0; });
  }
  *list = found;
  return static_cast<int>(count);
}

// Whether scandir() of this path is ours to do, and the folder or the failure.
[[nodiscard]] bool open_to_scan(const char* path, DIR*& folder) {
  if (!find_file(AT_FDCWD, path, true, SharedFolder::ours).is_ours()) return false;
  folder = opendir(path);
  return folder == nullptr || FakeFolder::of(folder) != nullptr;
}

[[nodiscard]] bool may_match_ours(const char* pattern) noexcept {
  const std::string_view view(pattern);
  return view.starts_with("/dev/") || view.starts_with("/sys/");
}

// The C library's glob() reads folders by functions of its own unless it is given others.
template <typename Glob, typename Entry, typename Status>
[[nodiscard]] int glob_with_ours(Glob real, const char* pattern, int flags, int (*fault)(const char*, int), auto* result,
                                 Entry* (*read)(DIR*), int (*look)(const char*, Status*), int (*look_at_link)(const char*, Status*)) {
  if ((flags & GLOB_ALTDIRFUNC) != 0 || !may_match_ours(pattern)) return real(pattern, flags, fault, result);
  result->gl_opendir = [](const char* path) -> void* { return opendir(path); };
  result->gl_closedir = [](void* folder) { closedir(static_cast<DIR*>(folder)); };
  result->gl_readdir = reinterpret_cast<Entry* (*)(void*)>(read);
  result->gl_stat = look;
  result->gl_lstat = look_at_link;
  const int outcome = real(pattern, flags | GLOB_ALTDIRFUNC, fault, result);
  result->gl_flags &= ~GLOB_ALTDIRFUNC;
  return outcome;
}

}  // namespace

KERNCAP_EXPORT DIR* opendir(const char* path) {
  const FileTree::Found found = find_file(AT_FDCWD, path, true, SharedFolder::ours);
  if (!found.is_ours()) return real_opendir(path);
  if (found.node == nullptr) return fail_to_open(found.error);
  if (found.node->kind != FileTree::Kind::folder) return fail_to_open(ENOTDIR);
  const std::string& canonical = found.node->path;
  return open_folder(*found.node, found.node->is_whole ? nullptr : real_opendir(canonical.empty() ? "/" : canonical.c_str()));
}

KERNCAP_EXPORT DIR* fdopendir(int fd) {
  KERNCAP_REAL(fdopendir);
  if (const FileTree::Node* node = node_of(fd)) {
    if (node->kind != FileTree::Kind::folder) return fail_to_open(ENOTDIR);
    return FakeFolder::open(*system_files(), *node, nullptr, fd);
  }
  DIR* machine = real(fd);
  if (machine == nullptr) return nullptr;
  const FileTree::Found found = find_file(AT_FDCWD, path_of(fd).c_str(), true, SharedFolder::ours);
  const bool is_shared = found.node != nullptr && found.node->kind == FileTree::Kind::folder;
  return is_shared ? open_folder(*found.node, machine) : machine;
}

KERNCAP_EXPORT struct dirent* readdir(DIR* folder) {
  if (FakeFolder* fake = FakeFolder::of(folder)) return fake->next();
  KERNCAP_REAL(readdir);
  return real(folder);
}

KERNCAP_EXPORT struct dirent64* readdir64(DIR* folder) {
  if (FakeFolder* fake = FakeFolder::of(folder)) return reinterpret_cast<dirent64*>(fake->next());
  KERNCAP_REAL(readdir64);
  return real(folder);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
KERNCAP_EXPORT int readdir_r(DIR* folder, struct dirent* entry, struct dirent** result) {
  if (FakeFolder* fake = FakeFolder::of(folder)) return next_into(*fake, entry, result);
  KERNCAP_REAL(readdir_r);
  return real(folder, entry, result);
}

KERNCAP_EXPORT int readdir64_r(DIR* folder, struct dirent64* entry, struct dirent64** result) {
  if (FakeFolder* fake = FakeFolder::of(folder)) {
    return next_into(*fake, reinterpret_cast<dirent*>(entry), reinterpret_cast<dirent**>(result));
  }
  KERNCAP_REAL(readdir64_r);
  return real(folder, entry, result);
}
#pragma GCC diagnostic pop

KERNCAP_EXPORT int closedir(DIR* folder) {
  if (FakeFolder* fake = FakeFolder::of(folder)) {
    delete fake;
    return 0;
  }
  KERNCAP_REAL(closedir);
  return real(folder);
}

KERNCAP_EXPORT int dirfd(DIR* folder) noexcept {
  if (const FakeFolder* fake = FakeFolder::of(folder)) return fake->fd();
  KERNCAP_REAL(dirfd);
  return real(folder);
}

KERNCAP_EXPORT void rewinddir(DIR* folder) noexcept {
  if (FakeFolder* fake = FakeFolder::of(folder)) return fake->seek(0);
  KERNCAP_REAL(rewinddir);
  real(folder);
}

KERNCAP_EXPORT long telldir(DIR* folder) noexcept {
  if (const FakeFolder* fake = FakeFolder::of(folder)) return fake->position();
  KERNCAP_REAL(telldir);
  return real(folder);
}

KERNCAP_EXPORT void seekdir(DIR* folder, long position) noexcept {
  if (FakeFolder* fake = FakeFolder::of(folder)) return fake->seek(position);
  KERNCAP_REAL(seekdir);
  real(folder, position);
}

KERNCAP_EXPORT int scandir(const char* path, struct dirent*** list, int (*filter)(const struct dirent*),
                           int (*compare)(const struct dirent**, const struct dirent**)) {
  DIR* folder = nullptr;
  if (open_to_scan(path, folder)) return folder != nullptr ? scan(folder, list, filter, compare) : -1;
  KERNCAP_REAL(scandir);
  return real(path, list, filter, compare);
}

KERNCAP_EXPORT int scandir64(const char* path, struct dirent64*** list, int (*filter)(const struct dirent64*),
                             int (*compare)(const struct dirent64**, const struct dirent64**)) {
  DIR* folder = nullptr;
  if (open_to_scan(path, folder)) {
    return folder != nullptr ? scan(folder, reinterpret_cast<dirent***>(list), reinterpret_cast<Filter>(filter),
                                    reinterpret_cast<Compare>(compare))
                             : -1;
  }
  KERNCAP_REAL(scandir64);
  return real(path, list, filter, compare);
}

KERNCAP_EXPORT int glob(const char* pattern, int flags, int (*fault)(const char*, int), glob_t* result) noexcept {
  KERNCAP_REAL(glob);
  return glob_with_ours<decltype(real), dirent, struct stat>(real, pattern, flags, fault, result, readdir, stat, lstat);
}

KERNCAP_EXPORT int glob64(const char* pattern, int flags, int (*fault)(const char*, int), glob64_t* result) noexcept {
  KERNCAP_REAL(glob64);
  return glob_with_ours<decltype(real), dirent64, struct stat64>(real, pattern, flags, fault, result, readdir64, stat64, lstat64);
}
