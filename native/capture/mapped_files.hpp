// Files that the collector names: mapped when they are first wanted, until the process ends.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <string>

#include "core/result.hpp"

namespace kerncap::capture {

class MappedFiles {
 public:
  // Any thread. Valid until the process ends.
  [[nodiscard]] core::Result<std::span<const std::byte>> read(const std::string& path);
  // Whether a file has these bytes.
  [[nodiscard]] core::Result<bool> holds(const std::string& path, std::span<const std::byte> bytes);

 private:
  std::mutex m_mutex;
  std::map<std::string, std::span<const std::byte>> m_files;
};

}  // namespace kerncap::capture
