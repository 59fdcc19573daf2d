// What this process has mapped, as /proc/self/maps lists it.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
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

// A line: begin-end rights offset device inode name. A process has hundreds of them, and asks often.
[[nodiscard]] inline std::optional<ProcessMapping> read_mapping(std::string_view line) {
  ProcessMapping mapping;
  const char* const last = line.data() + line.size();
  const auto begin = std::from_chars(line.data(), last, mapping.begin, 16);
  if (begin.ec != std::errc() || begin.ptr == last || *begin.ptr != '-') return std::nullopt;
  const auto end = std::from_chars(begin.ptr + 1, last, mapping.end, 16);
  if (end.ec != std::errc() || last - end.ptr < 5 || *end.ptr != ' ') return std::nullopt;
  std::copy_n(end.ptr + 1, 4, mapping.rights);
  std::string_view rest(end.ptr + 5, static_cast<std::size_t>(last - end.ptr - 5));
  for (int field = 0; field < 3; ++field) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    rest.remove_prefix(std::min(rest.find(' '), rest.size()));
  }
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  mapping.name = rest;
  return mapping;
}

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
    const std::string_view line(&text[at], line_end - at);
    at = line_end + 1;
    if (std::optional<ProcessMapping> mapping = read_mapping(line)) found.push_back(std::move(*mapping));
  }
  return found;
}

}  // namespace kerncap::core
