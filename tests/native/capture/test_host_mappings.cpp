// What this process can read: its own mappings, as they are now.
#include <sys/mman.h>

#include <cstdio>
#include <vector>

#include "../check.hpp"
#include "capture/host_mappings.hpp"

using namespace kerncap::capture;

namespace {

constexpr std::uint64_t k_page = 4096;

bool equal(const std::vector<HostRange>& parts, const std::vector<HostRange>& wanted) {
  bool same = parts.size() == wanted.size();
  for (std::size_t i = 0; same && i < parts.size(); ++i) {
    same = parts[i].begin == wanted[i].begin && parts[i].end == wanted[i].end;
  }
  return same;
}

void parts_are_cut_to_what_was_asked_for() {
  const std::vector<HostRange> ranges = {{10, 20}, {30, 40}};
  CHECK(equal(parts_within(ranges, 0, 50), ranges));
  CHECK(equal(parts_within(ranges, 15, 35), {{15, 20}, {30, 35}}));
  CHECK(equal(parts_within(ranges, 20, 30), {}));
  CHECK(equal(parts_within(ranges, 12, 13), {{12, 13}}));
  CHECK(equal(parts_within(ranges, 40, 50), {}));
}

// Five pages: as it is, unmapped, unreadable, read-only, as it is.
void holes_and_what_may_not_be_read_are_left_out() {
  auto* memory = static_cast<char*>(::mmap(nullptr, 5 * k_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(memory != MAP_FAILED);
  const auto base = reinterpret_cast<std::uint64_t>(memory);
  CHECK(equal(parts_within(readable_memory(), base, base + 5 * k_page), {{base, base + 5 * k_page}}));
  CHECK(::munmap(memory + k_page, k_page) == 0);
  CHECK(::mprotect(memory + 2 * k_page, k_page, PROT_NONE) == 0);
  CHECK(::mprotect(memory + 3 * k_page, k_page, PROT_READ) == 0);
  CHECK(equal(parts_within(readable_memory(), base, base + 5 * k_page),
              {{base, base + k_page}, {base + 3 * k_page, base + 5 * k_page}}));
}

}  // namespace

int main() {
  parts_are_cut_to_what_was_asked_for();
  holes_and_what_may_not_be_read_are_left_out();
  return kerncap::test::exit_code();
}
