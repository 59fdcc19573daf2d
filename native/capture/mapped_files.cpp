#include "capture/mapped_files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "core/unique_fd.hpp"

namespace kerncap::capture {

using core::Error;
using core::ErrorCode;
using core::Result;

Result<std::span<const std::byte>> MappedFiles::read(const std::string& path) {
  const std::lock_guard lock(m_mutex);
  if (const auto known = m_files.find(path); known != m_files.end()) return known->second;
  const core::UniqueFd opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!opened.valid() || ::fstat(opened.get(), &status) != 0) {
    return Error{ErrorCode::io, "cannot read " + path + ": " + std::strerror(errno)};
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, opened.get(), 0);
  if (mapped == MAP_FAILED) return Error{ErrorCode::io, "cannot map " + path + ": " + std::strerror(errno)};
  return m_files[path] = {static_cast<const std::byte*>(mapped), size};
}

Result<bool> MappedFiles::holds(const std::string& path, std::span<const std::byte> bytes) {
  const Result<std::span<const std::byte>> file = read(path);
  if (!file) return file.error();
  return file.value().size() == bytes.size() && std::memcmp(file.value().data(), bytes.data(), bytes.size()) == 0;
}

}  // namespace kerncap::capture
