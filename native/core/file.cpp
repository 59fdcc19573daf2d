// File operations over raw descriptors: every path is relative to a folder that is already open.
#include "core/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kerncap::core {

Error errno_error(const std::string& what, int number) {
  ErrorCode code = ErrorCode::io;
  if (number == ENOSPC || number == EDQUOT) code = ErrorCode::no_space;
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

Result<void> write_pieces(int fd, std::span<iovec> pieces) {
  while (!pieces.empty()) {
    ssize_t count = ::writev(fd, pieces.data(), static_cast<int>(pieces.size()));
    if (count < 0) {
      if (errno == EINTR) continue;
      return errno_error("cannot write", errno);
    }
    while (!pieces.empty() && static_cast<std::size_t>(count) >= pieces.front().iov_len) {
      count -= static_cast<ssize_t>(pieces.front().iov_len);
      pieces = pieces.subspan(1);
    }
    if (!pieces.empty()) {
      pieces.front().iov_base = static_cast<std::byte*>(pieces.front().iov_base) + count;
      pieces.front().iov_len -= static_cast<std::size_t>(count);
    }
  }
  return {};
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

Result<UniqueFd> open_at(int folder, const std::string& name, int flags, unsigned mode) {
  const int fd = ::openat(folder, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return errno_error("cannot open " + name, errno);
  return UniqueFd(fd);
}

Result<void> make_folder(int folder, const std::string& name) {
  if (::mkdirat(folder, name.c_str(), 0700) != 0 && errno != EEXIST) return errno_error("cannot make " + name, errno);
  return {};
}

Result<void> sync_folder(int fd, const std::string& name) {
  if (::fsync(fd) != 0) return errno_error("cannot sync " + name, errno);
  return {};
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
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(file.value().get(), buffer.data() + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error("cannot read " + name, errno);
    if (count == 0) break;  // it shrank under us: what is there will not hash to its name
    done += static_cast<std::size_t>(count);
  }
  return std::span<const std::byte>(buffer).first(done);
}

}  // namespace kerncap::core
