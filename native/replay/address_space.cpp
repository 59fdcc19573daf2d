// The address space of a replay process.
#include "replay/address_space.hpp"

#include <sys/mman.h>
#include <sys/personality.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/hex.hpp"
#include "core/process_maps.hpp"

namespace kerncap::replay {
namespace {

using core::Error;
using core::ErrorCode;
using core::hex;
using core::Result;

constexpr std::uint64_t k_page = 4096;
constexpr char k_attempt_variable[] = "KERNCAP_REPLAY_ATTEMPT";
constexpr int k_random_attempts = 3;   // other layouts that the loader rolls; the last attempt uses none

bool same_placement(const Region& a, const Region& b) {
  return a.kind == b.kind && a.device == b.device && a.access == b.access && a.flags == b.flags &&
         a.piece == 0 && b.piece == 0;
}

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

Error taken(const Range& range) {
  return {ErrorCode::device, "the addresses " + hex(range.base) + "-" + hex(range.base + range.bytes) +
                                 " of the capture are taken here, by " + holder_of(range.base, range.bytes)};
}

}  // namespace

void start_again(char** argv) {
  const char* text = std::getenv(k_attempt_variable);
  const int attempt = text == nullptr ? 0 : std::atoi(text);
  if (attempt > k_random_attempts) return;
  ::setenv(k_attempt_variable, std::to_string(attempt + 1).c_str(), 1);
  if (attempt == k_random_attempts) {
    const int current = ::personality(0xFFFFFFFF);
    if (current < 0 || ::personality(static_cast<unsigned long>(current) | ADDR_NO_RANDOMIZE) < 0) return;
  }
  ::execv("/proc/self/exe", argv);
}

Result<std::vector<Range>> ranges_of(const Plan& plan) {
  std::vector<Range> ranges;
  for (const Region& region : plan.regions) {
    if (region.own_code) continue;       // comes with the code object
    const std::uint64_t begin = region.base & ~(k_page - 1);
    const std::uint64_t end = (region.end() + k_page - 1) & ~(k_page - 1);
    if (ranges.empty() || begin > ranges.back().base + ranges.back().bytes) {
      ranges.push_back({begin, end - begin, &region});
      continue;
    }
    Range& last = ranges.back();
    const std::uint64_t last_end = last.base + last.bytes;
    if (same_placement(*last.first, region)) {
      last.bytes = std::max(last_end, end) - last.base;
    } else if (begin >= last_end) {
      ranges.push_back({begin, end - begin, &region});
    } else if (last.first->on_host() && region.on_host()) {
      // Two pinned ranges of different rights share a page: the page gets the rights of the first, and the
      // rest its own.
      if (end > last_end) ranges.push_back({last_end, end - last_end, &region});
    } else {
      return Error{ErrorCode::unsupported, "regions of different kinds share the page at " + hex(begin)};
    }
  }
  if (plan.loaded_bytes != 0) {
    const std::uint64_t bytes = (plan.loaded_bytes + k_page - 1) & ~(k_page - 1);
    const Range code{plan.loaded_address, bytes, nullptr};
    const auto after = std::find_if(ranges.begin(), ranges.end(),
                                    [&](const Range& range) { return range.base > code.base; });
    const bool overlaps = (after != ranges.end() && after->base < code.base + code.bytes) ||
                          (after != ranges.begin() && std::prev(after)->base + std::prev(after)->bytes > code.base);
    if (overlaps) return Error{ErrorCode::damaged, "a captured region lies in the code object at " + hex(code.base)};
    ranges.insert(after, code);
  }
  return ranges;
}

Result<void> hold(const std::vector<Range>& ranges, char** argv) {
  for (const Range& range : ranges) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void* got = ::mmap(pointer(range.base), range.bytes, PROT_NONE, flags, -1, 0);
    if (got == pointer(range.base)) continue;
    const Error error = got == MAP_FAILED && errno != EEXIST
                            ? Error{ErrorCode::no_space, "cannot hold " + hex(range.base) + ": " + std::strerror(errno)}
                            : taken(range);
    start_again(argv);
    return error;
  }
  return {};
}

Result<void> let_go(const Range& range) {
  if (::munmap(pointer(range.base), range.bytes) == 0) return {};
  return Error{ErrorCode::io, "cannot release " + hex(range.base) + ": " + std::strerror(errno)};
}

std::string holder_of(std::uint64_t base, std::uint64_t bytes) {
  for (const core::ProcessMapping& each : core::process_mappings().value_or(std::vector<core::ProcessMapping>{})) {
    if (each.begin >= base + bytes || each.end <= base) continue;
    return hex(each.begin) + "-" + hex(each.end) + " " + each.rights + " " + (each.name.empty() ? "(anonymous memory)" : each.name);
  }
  return "nothing that /proc/self/maps shows";
}

}  // namespace kerncap::replay
