// Reads the kernel's list of this process's mappings.
#include "capture/host_mappings.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>

#include "core/unique_fd.hpp"

namespace kerncap::capture {
namespace {

std::string text_of(const char* path) {
  std::string text;
  const core::UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  constexpr std::size_t k_piece_bytes = 1 << 16;
  for (std::size_t size = 0; file.valid();) {
    text.resize(size + k_piece_bytes);
    const ssize_t count = ::read(file.get(), &text[size], k_piece_bytes);
    if (count < 0 && errno == EINTR) continue;
    size += count > 0 ? static_cast<std::size_t>(count) : 0;
    text.resize(size);
    if (count <= 0) break;
  }
  return text;
}

// "7f12a000-7f12c000 rw-p ..."
bool read_line(std::string_view line, HostRange& range) noexcept {
  const char* end = line.data() + line.size();
  const auto first = std::from_chars(line.data(), end, range.begin, 16);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '-') return false;
  const auto last = std::from_chars(first.ptr + 1, end, range.end, 16);
  return last.ec == std::errc{} && end - last.ptr >= 2 && last.ptr[0] == ' ' && last.ptr[1] == 'r';
}

}  // namespace

std::vector<HostRange> readable_memory() {
  const std::string text = text_of("/proc/self/maps");
  std::vector<HostRange> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    HostRange range;
    if (read_line(std::string_view(text).substr(at, end - at), range)) {
      if (!found.empty() && found.back().end == range.begin) {
        found.back().end = range.end;
      } else {
        found.push_back(range);
      }
    }
    at = end + 1;
  }
  if (found.empty()) found.push_back({0, ~std::uint64_t{0}});
  return found;
}

std::vector<HostRange> parts_within(std::span<const HostRange> ranges, std::uint64_t begin, std::uint64_t end) {
  std::vector<HostRange> parts;
  auto next = std::upper_bound(ranges.begin(), ranges.end(), begin,
                               [](std::uint64_t at, const HostRange& range) { return at < range.end; });
  for (; next != ranges.end() && next->begin < end; ++next) {
    parts.push_back({std::max(begin, next->begin), std::min(end, next->end)});
  }
  return parts;
}

}  // namespace kerncap::capture
