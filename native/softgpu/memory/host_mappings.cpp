#include "softgpu/memory/host_mappings.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>

namespace kerncap::softgpu {
namespace {

[[nodiscard]] std::string read_all(const char* path) {
  std::string text;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  for (char block[16384];;) {
    const ssize_t count = read(file, block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(block, static_cast<std::size_t>(count));
  }
  close(file);
  return text;
}

}  // namespace

std::vector<HostMapping> host_mappings(std::uint64_t begin, std::uint64_t end) {
  const std::string text = read_all("/proc/self/maps");
  if (text.empty()) return {{begin, end, Rights::all}};
  std::vector<HostMapping> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t line_end = std::min(text.find('\n', at), text.size());
    unsigned long long first = 0, last = 0;
    char rights[5] = "";
    if (std::sscanf(text.c_str() + at, "%llx-%llx %4s", &first, &last, rights) == 3 && first < end && last > begin) {
      HostMapping mapping{std::max<std::uint64_t>(first, begin), std::min<std::uint64_t>(last, end), Rights::none};
      if (rights[0] == 'r') mapping.rights = mapping.rights | Rights::read;
      if (rights[1] == 'w') mapping.rights = mapping.rights | Rights::write;
      if (rights[2] == 'x') mapping.rights = mapping.rights | Rights::execute;
      found.push_back(mapping);
    }
    at = line_end + 1;
  }
  return found;
}

bool cover(const std::vector<HostMapping>& mappings, std::uint64_t begin, std::uint64_t end, Rights wanted) noexcept {
  std::uint64_t reached = begin;
  for (const HostMapping& mapping : mappings) {
    if (mapping.begin > reached || !allows(mapping.rights, wanted)) return false;
    reached = std::max(reached, mapping.end);
  }
  return reached >= end;
}

}  // namespace kerncap::softgpu
