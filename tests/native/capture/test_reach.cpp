// Which regions the words of arguments and memory lead to.
#include <cstring>
#include <vector>

#include "../check.hpp"
#include "capture/reach.hpp"

using namespace kerncap::capture;

namespace {

constexpr std::uint64_t k_base = 0x7f0000000000;
constexpr std::uint64_t k_apart = 0x100000;
constexpr std::uint64_t k_bytes = 0x10000;

std::vector<Allocation> regions(std::size_t count) {
  std::vector<Allocation> made(count);
  for (std::size_t i = 0; i < count; ++i) {
    made[i].base = k_base + i * k_apart;
    made[i].bytes = k_bytes;
  }
  return made;
}

std::vector<std::byte> bytes_of(std::uint64_t word, std::size_t at, std::size_t size) {
  std::vector<std::byte> bytes(size, std::byte{0x5A});
  std::memcpy(&bytes[at], &word, sizeof word);
  return bytes;
}

std::uint64_t base_of(std::size_t index) { return k_base + index * k_apart; }

void arguments_may_lie_at_any_byte() {
  const auto all = regions(4);
  for (std::size_t at = 0; at <= 24; ++at) {
    ReachScan scan(all);
    scan.look_at_arguments(bytes_of(base_of(2) + 12, at, 32));
    CHECK(scan.next() == 2);
    CHECK(!scan.next());
    CHECK(scan.reached(2) && !scan.reached(1));
  }
}

void memory_holds_addresses_at_multiples_of_eight() {
  const auto all = regions(4);
  ReachScan scan(all);
  scan.look_at_memory(bytes_of(base_of(1), 4, 32));
  CHECK(scan.found() == 0);
  scan.look_at_memory(bytes_of(base_of(1), 24, 32));
  CHECK(scan.next() == 1);
}

void first_last_and_a_little_beside_count_as_inside() {
  const auto all = regions(3);
  const auto leads = [&all](std::uint64_t word) {
    ReachScan scan(all);
    scan.look_at_arguments(bytes_of(word, 0, 8));
    return scan.next();
  };
  CHECK(leads(base_of(1)) == 1);
  CHECK(leads(base_of(1) + k_bytes - 1) == 1);
  CHECK(leads(base_of(1) + k_bytes) == 1);                       // one after the last element
  CHECK(leads(base_of(1) - 8) == 1);                             // an array that counts from one
  CHECK(leads(base_of(0) - k_reach_slack_bytes) == 0);
  CHECK(leads(base_of(2) + k_bytes + k_reach_slack_bytes) == 2);
  CHECK(!leads(base_of(1) + k_bytes + k_reach_slack_bytes + 1));
  CHECK(!leads(base_of(0) - k_reach_slack_bytes - 1));
  CHECK(!leads(base_of(2) + k_bytes + k_reach_slack_bytes + 1));
  CHECK(!leads(0) && !leads(~std::uint64_t{0}));
}

void a_word_between_neighbours_leads_to_both() {
  std::vector<Allocation> all(2);
  all[0].base = k_base;
  all[0].bytes = all[1].bytes = 4096;
  all[1].base = k_base + 4096;
  ReachScan scan(all);
  scan.look_at_arguments(bytes_of(all[1].base, 0, 8));
  CHECK(scan.reached(0) && scan.reached(1));
}

void arguments_point_into_a_region_and_not_beside_it() {
  const Allocation region = regions(2)[1];
  const auto points = [&region](std::uint64_t word, std::size_t at) {
    return points_into(bytes_of(word, at, 32), region);
  };
  for (std::size_t at = 0; at <= 24; ++at) CHECK(points(region.base + 12, at));
  CHECK(points(region.base, 8) && points(region.base + k_bytes - 1, 8));
  CHECK(!points(region.base - 1, 8) && !points(region.base + k_bytes, 8));
  CHECK(!points_into({}, region));
}

void each_region_is_handed_out_once() {
  const auto all = regions(3);
  ReachScan scan(all);
  scan.add_root(1);
  scan.add_root(1);
  scan.look_at_arguments(bytes_of(base_of(1) + 100, 0, 8));
  CHECK(scan.found() == 1);
  CHECK(scan.next() == 1);
  CHECK(!scan.next());
}

void nothing_is_found_where_nothing_is() {
  const std::vector<Allocation> none;
  ReachScan scan(none);
  scan.look_at_arguments(bytes_of(0, 0, 32));
  scan.look_at_memory(bytes_of(~std::uint64_t{0}, 0, 32));
  CHECK(!scan.next());
}

}  // namespace

int main() {
  arguments_may_lie_at_any_byte();
  memory_holds_addresses_at_multiples_of_eight();
  first_last_and_a_little_beside_count_as_inside();
  a_word_between_neighbours_leads_to_both();
  arguments_point_into_a_region_and_not_beside_it();
  each_region_is_handed_out_once();
  nothing_is_found_where_nothing_is();
  return kerncap::test::exit_code();
}
