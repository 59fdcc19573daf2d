// File operations over raw descriptors: every path is relative to a folder that is already open.
#include "core/file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace kerncap::core {

Error errno_error(const std::string& what, int number) {
  ErrorCode code = ErrorCode::io;
  if (number == ENOSPC || number == EDQUOT) code = ErrorCode::no_space;
  if (number == EFBIG) code = ErrorCode::file_limit;
  if (number == EACCES || number == EPERM || number == EROFS) code = ErrorCode::permission;
  if (number == ENOENT) code = ErrorCode::not_found;
  return {code, what + ": " + std::strerror(number)};
}

Result<void> write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      return errno_error("cannot write", errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

namespace {

// The pieces that are left after `bytes` bytes of them are done.
std::span<iovec> rest_of(std::span<iovec> pieces, std::size_t bytes) {
  while (!pieces.empty() && bytes >= pieces.front().iov_len) {
    bytes -= pieces.front().iov_len;
    pieces = pieces.subspan(1);
  }
  if (!pieces.empty()) {
    pieces.front().iov_base = static_cast<std::byte*>(pieces.front().iov_base) + bytes;
    pieces.front().iov_len -= bytes;
  }
  return pieces;
}

}  // namespace

Result<void> write_pieces(int fd, std::span<iovec> pieces) {
  while (!pieces.empty()) {
    const ssize_t count = ::writev(fd, pieces.data(), static_cast<int>(pieces.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error("cannot write", errno);
    pieces = rest_of(pieces, static_cast<std::size_t>(count));
  }
  return {};
}

Result<std::size_t> read_pieces(int fd, std::span<iovec> pieces) {
  std::size_t done = 0;
  while (!pieces.empty()) {
    const ssize_t count = ::readv(fd, pieces.data(), static_cast<int>(pieces.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error("cannot read", errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
    pieces = rest_of(pieces, static_cast<std::size_t>(count));
  }
  return done;
}

Result<void> copy_range(int from, std::uint64_t offset, std::uint64_t bytes, int to) {
  std::vector<std::byte> piece;
  auto position = static_cast<off_t>(offset);
  while (bytes > 0) {
    ssize_t count = piece.empty() ? ::copy_file_range(from, &position, to, nullptr, bytes, 0) : -1;
    if (count < 0 && (!piece.empty() || errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS)) {
      // Two file systems, or one that cannot: through our memory, then.
      piece.resize(1024 * 1024);
      count = ::pread(from, piece.data(), std::min<std::uint64_t>(piece.size(), bytes), position);
      if (count > 0) {
        if (auto status = write_all(to, std::span(piece).first(static_cast<std::size_t>(count))); !status) return status;
        position += count;
      }
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error("cannot copy", errno);
    if (count == 0) return Error{ErrorCode::damaged, "the source ends before its object does"};
    bytes -= static_cast<std::uint64_t>(count);
  }
  return {};
}

Result<UniqueFd> open_at(int folder, const std::string& name, int flags, unsigned mode, Links links) {
  const int no_follow = links == Links::refuse ? O_NOFOLLOW : 0;
  // Without O_NONBLOCK, which means nothing to a file, a pipe that somebody put there would be waited for.
  const int fd = ::openat(folder, name.c_str(), flags | O_CLOEXEC | O_NONBLOCK | no_follow, mode);
  if (fd < 0) return errno_error("cannot open " + name, errno);
  return UniqueFd(fd);
}

Result<bool> make_folder(int folder, const std::string& name) {
  if (::mkdirat(folder, name.c_str(), 0700) == 0) return true;
  if (errno == EEXIST) return false;
  return errno_error("cannot make " + name, errno);
}

Result<std::vector<std::string>> list_folder(int folder) {
  auto opened = open_at(folder, ".", O_DIRECTORY);  // a stream of its own: it moves the descriptor's position
  if (!opened) return opened.error();
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(opened.value().get()), &::closedir);
  if (!stream) return errno_error("cannot list a folder", errno);
  (void)opened.value().release();
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  if (errno != 0) return errno_error("cannot list a folder", errno);
  return names;
}

Result<void> remove_folder(int parent, const std::string& name) {
  const auto removed = [](int folder, const std::string& file, int flags) {
    return ::unlinkat(folder, file.c_str(), flags) == 0 || errno == ENOENT;
  };
  auto folder = open_at(parent, name, O_DIRECTORY);
  if (!folder && folder.error().code == ErrorCode::not_found) return {};
  if (!folder) return folder.error();
  auto names = list_folder(folder.value().get());
  if (!names) return names.error();
  for (const std::string& file : names.value()) {
    if (!removed(folder.value().get(), file, 0)) return errno_error("cannot remove " + file, errno);
  }
  if (!removed(parent, name, AT_REMOVEDIR)) return errno_error("cannot remove " + name, errno);
  return {};
}

Result<void> sync_to_disk(int fd, const std::string& name) {
  if (::fsync(fd) != 0) return errno_error("cannot bring " + name + " to the disk", errno);
  return {};
}

Result<std::size_t> read_fully(int fd, std::span<std::byte> buffer, const std::string& name) {
  std::size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t count = ::read(fd, buffer.data() + done, buffer.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error("cannot read " + name, errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

Result<std::span<const std::byte>> read_file(int folder, const std::string& name, std::vector<std::byte>& buffer,
                                             std::size_t most_bytes) {
  auto file = open_at(folder, name, O_RDONLY | O_NONBLOCK);
  if (!file) return file.error();
  struct stat status {};
  if (::fstat(file.value().get(), &status) != 0) return errno_error("cannot stat " + name, errno);
  if (!S_ISREG(status.st_mode)) return Error{ErrorCode::damaged, name + " is not a file"};
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > most_bytes) {
    return Error{ErrorCode::damaged, name + " has " + std::to_string(size) + " bytes, more than fits what it holds"};
  }
  if (buffer.size() < size) buffer.resize(size);
  // If it shrinks under us, what is there will not hash to its name.
  auto count = read_fully(file.value().get(), std::span(buffer).first(size), name);
  if (!count) return count.error();
  return std::span<const std::byte>(buffer).first(count.value());
}

}  // namespace kerncap::core
