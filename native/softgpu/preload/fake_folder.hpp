// A DIR that lists names of ours, and behind them those of the machine's folder of the same path. Told from the C library's own
// by its first bytes.
#pragma once

#include <dirent.h>

#include <cstdint>
#include <string>
#include <vector>

#include "softgpu/device/file_tree.hpp"

namespace kerncap::softgpu {

class FakeFolder {
 public:
  // machine: the C library's, which the new one owns; null for a folder that is ours alone. fd: what dirfd() tells, owned, too; -1
  // where the machine's has one.
  [[nodiscard]] static DIR* open(const FileTree& files, const FileTree::Node& folder, DIR* machine, int fd);
  [[nodiscard]] static FakeFolder* of(DIR* folder) noexcept;  // null: not one of ours
  ~FakeFolder();
  FakeFolder(const FakeFolder&) = delete;
  FakeFolder& operator=(const FakeFolder&) = delete;

  [[nodiscard]] dirent* next() noexcept;  // null: no more
  [[nodiscard]] long position() const noexcept { return static_cast<long>(m_position); }
  void seek(long position) noexcept { m_position = static_cast<std::size_t>(position); }
  [[nodiscard]] int fd() const noexcept { return m_fd; }

 private:
  // The C library's begins with a descriptor, which is not negative.
  static constexpr std::int64_t k_mark = -0x6b65726e63617000;

  FakeFolder(DIR* machine, int fd) noexcept : m_machine(machine), m_fd(fd) {}
  void add(const char* name, std::uint64_t number, unsigned char type);

  const std::int64_t m_mark = k_mark;
  DIR* m_machine;
  int m_fd;
  std::vector<dirent> m_entries;
  std::size_t m_position = 0;
};

}  // namespace kerncap::softgpu
