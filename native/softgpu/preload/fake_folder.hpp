// A DIR that lists names of ours. Recognised by its address, so that the C library's own are passed on.
#pragma once

#include <dirent.h>

#include <string>
#include <vector>

namespace kerncap::softgpu {

class FakeFolder {
 public:
  [[nodiscard]] static DIR* open(const std::vector<std::string>& names);
  [[nodiscard]] static FakeFolder* of(DIR* folder) noexcept;  // null: not one of ours
  static bool close(DIR* folder) noexcept;

  [[nodiscard]] dirent* next() noexcept;

 private:
  explicit FakeFolder(const std::vector<std::string>& names);

  std::vector<std::string> m_names;
  std::size_t m_position = 0;
  dirent m_entry{};
};

}  // namespace kerncap::softgpu
