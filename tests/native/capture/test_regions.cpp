// The list of regions that one capture holds, and where each is read.
#include <sys/mman.h>

#include <vector>

#include "../check.hpp"
#include "capture/regions.hpp"

using namespace kerncap::capture;

namespace {

constexpr std::uint64_t k_page = 4096;
constexpr std::uint64_t k_on_device = 0x7000'0000'0000;   // where a device has host memory that is elsewhere for the processor

Allocation pinned_at(std::uint64_t host, std::uint64_t bytes) {
  Allocation pinned;
  pinned.base = k_on_device;
  pinned.bytes = bytes;
  pinned.kind = MemoryKind::host_registered;
  pinned.host = host;
  pinned.access = 1;
  return pinned;
}

// A kernel's arguments, for one, lie anywhere in a region.
void an_address_within_a_region_has_a_place_on_the_host() {
  const Allocation elsewhere = pinned_at(0x1000, 2 * k_page);
  CHECK(host_address(elsewhere, k_on_device) == 0x1000);
  CHECK(host_address(elsewhere, k_on_device + k_page + 8) == 0x1000 + k_page + 8);
  Allocation same = elsewhere;
  same.host = 0;
  CHECK(host_address(same, k_on_device + 8) == k_on_device + 8);
}

void pinned_memory_of_which_the_program_has_unmapped_a_part() {
  void* memory = mmap(nullptr, 3 * k_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto host = reinterpret_cast<std::uint64_t>(memory);
  ProgramMemory known;
  known.pinned.lock(pinned_at(host, 3 * k_page));
  munmap(static_cast<char*>(memory) + k_page, k_page);
  const std::vector<Allocation> found = known.reachable(0);
  CHECK(found.size() == 2);
  CHECK(found.front().base == k_on_device && found.front().host == host && found.front().bytes == k_page);
  CHECK(found.back().base == k_on_device + 2 * k_page && found.back().host == host + 2 * k_page);
  CHECK(known.reachable(1).empty());
  munmap(memory, 3 * k_page);
}

}  // namespace

int main() {
  an_address_within_a_region_has_a_place_on_the_host();
  pinned_memory_of_which_the_program_has_unmapped_a_part();
  return kerncap::test::exit_code();
}
