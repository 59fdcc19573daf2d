// What this process has mapped, as /proc/self/maps lists it.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/unique_fd.hpp"

namespace kerncap::core {

struct ProcessMapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  char rights[5] = "";                   // "rw-p"
  std::string name;                      // of a file, or "[heap]" and the like; empty: anonymous memory

  [[nodiscard]] bool is_readable() const noexcept { return rights[0] == 'r'; }
  [[nodiscard]] bool is_writable() const noexcept { return rights[1] == 'w'; }
  [[nodiscard]] bool is_executable() const noexcept { return rights[2] == 'x'; }
};

// In ascending order; nothing where the system does not tell.
[[nodiscard]] inline std::optional<std::vector<ProcessMapping>> process_mappings() {
  const UniqueFd file(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  std::string text;
  for (char block[16384];;) {
    const ssize_t count = ::read(file.get(), block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(block, static_cast<std::size_t>(count));
  }
  if (text.empty()) return std::nullopt;
  std::vector<ProcessMapping> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t line_end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, line_end - at);
    at = line_end + 1;
    ProcessMapping mapping;
    unsigned long long begin = 0;
    unsigned long long end = 0;
    int name_at = 0;                     // behind offset, device and inode
    if (std::sscanf(line.c_str(), "%llx-%llx %4s %*s %*s %*s %n", &begin, &end, mapping.rights, &name_at) != 3) continue;
    mapping.begin = begin;
    mapping.end = end;
    if (name_at != 0) mapping.name = line.substr(static_cast<std::size_t>(name_at));
    found.push_back(std::move(mapping));
  }
  return found;
}

}  // namespace kerncap::core
