#include "softgpu/preload/fake_files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <string_view>

#include "softgpu/device/driver.hpp"
#include "softgpu/device/kernel_fstat.hpp"
#include "softgpu/device/system_files.hpp"

namespace kerncap::softgpu {
namespace {

constexpr char k_memory_name[] = "kerncap-softgpu:";
constexpr std::string_view k_memory_path = "/memfd:kerncap-softgpu:", k_deleted = " (deleted)";
constexpr unsigned k_file_system = 0x6b63;  // the minor number of a file system of our own

class KeptErrno {
 public:
  KeptErrno() = default;
  ~KeptErrno() { errno = m_value; }
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;

 private:
  int m_value = errno;
};

[[nodiscard]] bool machine_has(const char* path) noexcept { return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0; }

[[nodiscard]] bool can_be_opened(const FileTree::Node& node, int flags) noexcept {
  const bool writes = (flags & O_ACCMODE) != O_RDONLY && (flags & O_PATH) == 0;
  const bool is_folder = node.kind == FileTree::Kind::folder;
  int error = 0;
  if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) {
    error = EEXIST;
  } else if (node.kind == FileTree::Kind::link) {
    error = ELOOP;  // O_NOFOLLOW
  } else if ((flags & O_DIRECTORY) != 0 && !is_folder) {
    error = ENOTDIR;
  } else if (writes && is_folder) {
    error = EISDIR;
  } else if (writes && node.kind == FileTree::Kind::text) {
    error = EACCES;
  }
  if (error != 0) errno = error;
  return error == 0;
}

}  // namespace

int fail(int error) noexcept {
  errno = error;
  return -1;
}

std::string path_of(int fd) noexcept {
  const KeptErrno kept;
  char link[32], path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const long size = syscall(SYS_readlink, link, path, sizeof path);
  if (size <= 0) return {};
  std::string_view view(path, static_cast<std::size_t>(size));
  if (view.starts_with(k_memory_path) && view.ends_with(k_deleted)) {
    view.remove_prefix(k_memory_path.size());
    view.remove_suffix(k_deleted.size());
  }
  return std::string(view.starts_with('/') ? view : std::string_view{});
}

const FileTree::Node* node_of(int fd) noexcept {
  const KeptErrno kept;
  struct stat status {};
  // Memory files have no name in any folder.
  if (kernel_fstat(fd, status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 0) return nullptr;
  const FileTree* files = system_files();
  if (files == nullptr) return nullptr;
  if (Driver* driver = Driver::existing()) {
    const Handle handle = driver->handle_of(fd);
    if (handle.kind == HandleKind::kfd) return files->find("/dev/kfd", true).node;
    if (handle.kind == HandleKind::render) {
      return files->find("/dev/dri/renderD" + std::to_string(k_first_render_minor + handle.gpu_index), true).node;
    }
  }
  char link[32], path[k_memory_path.size()];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const long size = syscall(SYS_readlink, link, path, sizeof path);
  if (size != sizeof path || std::string_view(path, sizeof path) != k_memory_path) return nullptr;
  return files->find(path_of(fd), true).node;
}

FileTree::Found find_file(int folder, const char* path, bool follow, SharedFolder shared) noexcept {
  if (path == nullptr) return {};
  const KeptErrno kept;
  std::string joined;
  if (*path != '/' && *path != '\0' && folder >= 0) {
    joined = path_of(folder);
    if (joined.empty()) return {};
    joined.append("/").append(path);
    path = joined.c_str();
  }
  if (!may_be_system_file(path)) return {};
  const FileTree* files = system_files();
  if (files == nullptr) return {};
  const FileTree::Found found = files->find(path, follow);
  const bool is_shared = found.node != nullptr && found.node->kind == FileTree::Kind::folder && !found.node->is_whole;
  // By this path: the machine knows no /dev/dri/.., where only we have a /dev/dri.
  if (is_shared && shared == SharedFolder::machines && machine_has(path)) return {};
  return found;
}

void describe(const FileTree::Node& node, struct stat& out) noexcept {
  out = {};
  switch (node.kind) {
    case FileTree::Kind::folder: out.st_mode = S_IFDIR | 0555; break;
    case FileTree::Kind::text: out.st_mode = S_IFREG | 0444; break;
    case FileTree::Kind::link: out.st_mode = S_IFLNK | 0777; break;
    case FileTree::Kind::device: out.st_mode = S_IFCHR | 0666; break;
  }
  out.st_dev = makedev(0, k_file_system);
  out.st_ino = node.number;
  out.st_nlink = node.kind == FileTree::Kind::folder ? 2 : 1;
  out.st_rdev = makedev(node.major, node.minor);
  out.st_size = static_cast<off_t>(node.text.size());
  out.st_blksize = 4096;
}

int open_node(const FileTree::Node& node, int flags) noexcept {
  if (!can_be_opened(node, flags)) return -1;
  if (node.kind == FileTree::Kind::device) {
    Driver* driver = Driver::instance();
    return driver != nullptr ? driver->open_device(node.device, flags) : fail(ENODEV);
  }
  const std::string name = k_memory_name + node.path;
  const int fd = memfd_create(name.c_str(), (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0);
  if (fd < 0) return -1;
  if (pwrite(fd, node.text.data(), node.text.size(), 0) == static_cast<ssize_t>(node.text.size())) return fd;
  close(fd);
  return fail(EIO);
}

}  // namespace kerncap::softgpu
