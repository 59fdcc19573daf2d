// Which blocks of addresses a replay asks for.
#include <random>

#include "../check.hpp"
#include "cuda/driver/reservations.hpp"

using namespace kerncap::cuda;
using kerncap::replay::Kind;
using kerncap::replay::Region;

namespace {

constexpr std::uint64_t k_block = k_reservation_bytes;

Region region(std::uint64_t base, std::uint64_t bytes, Kind kind = Kind::device_coarse) {
  Region made;
  made.base = base;
  made.bytes = bytes;
  made.kind = kind;
  return made;
}

void small_regions_take_a_whole_block() {
  const auto made = reservations_of({region(5 * k_block + 512, 256)});
  CHECK(made.size() == 1 && made[0].base == 5 * k_block && made[0].bytes == k_block);
}

void neighbours_are_one_and_strangers_are_not() {
  CHECK(reservations_of({region(k_block, 16), region(k_block + 4096, 16)}).size() == 1);
  CHECK(reservations_of({region(k_block, k_block), region(2 * k_block, 16)}).size() == 1);
  CHECK(reservations_of({region(k_block, 16), region(3 * k_block, 16)}).size() == 2);
}

void a_region_over_a_border_takes_both_blocks() {
  const auto made = reservations_of({region(2 * k_block - 16, 32)});
  CHECK(made.size() == 1 && made[0].base == k_block && made[0].bytes == 2 * k_block);
}

void registered_memory_is_not_the_driver_s() {
  CHECK(reservations_of({region(k_block, 4096, Kind::host_registered)}).empty());
  CHECK(reservations_of({region(k_block, 4096, Kind::host_pinned)}).size() == 1);
}

void managed_memory_is_apart_unless_it_shares_a_block() {
  const std::vector<Region> regions{
      region(2 * k_block + 4096, 100, Kind::managed), region(3 * k_block, k_block + 5, Kind::managed),
      region(6 * k_block, 4096, Kind::managed), region(7 * k_block, 4096),
      region(8 * k_block, 4096, Kind::managed), region(8 * k_block + 4096, 16, Kind::host_pinned)};
  const auto managed = managed_blocks_of(regions);
  CHECK(managed.size() == 2);
  // Neighbours are one; the last one ends where its memory does.
  CHECK(managed[0].base == 2 * k_block && managed[0].end() == 4 * k_block + 5);
  CHECK(managed[1].base == 6 * k_block && managed[1].end() == 6 * k_block + 4096);
  const auto others = reservations_of(regions, managed);
  CHECK(others.size() == 1 && others[0].base == 7 * k_block && others[0].bytes == 2 * k_block);
}

void every_region_is_inside_and_nothing_overlaps() {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<Region> regions;
    for (int i = 0; i < 20; ++i) regions.push_back(region(random() % (1ull << 36), 1 + random() % (3 * k_block)));
    const auto made = reservations_of(regions);
    for (std::size_t i = 0; i < made.size(); ++i) {
      CHECK(made[i].base % k_block == 0 && made[i].bytes % k_block == 0 && made[i].bytes > 0);
      CHECK(i == 0 || made[i - 1].end() < made[i].base);
    }
    for (const Region& one : regions) {
      int inside = 0;
      for (const Reservation& block : made) inside += block.base <= one.base && one.end() <= block.end();
      CHECK(inside == 1);
    }
  }
}

constexpr std::uint64_t k_granule = 2 << 20;

void what_regions_leave_of_their_granules_is_slack() {
  // One region in the middle of a granule; two that share one; one that ends where its granule does.
  const auto slack = slack_of({region(k_granule + 512, 100), region(4 * k_granule, k_granule + 8),
                               region(5 * k_granule + 64, 64), region(7 * k_granule + 16, k_granule - 16)}, k_granule);
  CHECK(slack.size() == 3);
  CHECK(slack[0].gaps.size() == 2 && slack[0].base() == k_granule && slack[0].bytes() == k_granule);
  CHECK(slack[0].gaps[0].bytes == 512 && slack[0].gaps[1].base == k_granule + 612);
  CHECK(slack[1].gaps.size() == 2 && slack[1].base() == 5 * k_granule + 8 && slack[1].gaps[0].bytes == 56);
  CHECK(slack[1].gaps[1].base == 5 * k_granule + 128 && slack[1].gaps[1].end() == 6 * k_granule);
  CHECK(slack[2].gaps.size() == 1 && slack[2].base() == 7 * k_granule && slack[2].bytes() == 16);
  CHECK(slack_of({region(k_granule, 3 * k_granule)}, k_granule).empty());
  CHECK(slack_of({region(k_granule, 4096, Kind::host_registered)}, k_granule).empty());
}

// Byte by byte, in granules of 16.
void slack_is_what_is_mapped_and_no_region_s() {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Region> regions;
    std::vector<int> expected(512, 0);
    for (std::uint64_t at = random() % 40; at < 400;) {
      const std::uint64_t bytes = 1 + random() % 40;
      regions.push_back(region(at, bytes));
      for (std::uint64_t i = at / 16 * 16; i < (at + bytes + 15) / 16 * 16; ++i) expected[i] += expected[i] == 0;
      at += bytes + random() % 3 * (random() % 40);
    }
    for (const Region& one : regions) {
      for (std::uint64_t i = one.base; i < one.end(); ++i) expected[i] = 0;
    }
    std::vector<int> found(512, 0);
    for (const Slack& slack : slack_of(regions, 16)) {
      for (const Reservation& gap : slack.gaps) {
        CHECK(gap.base / 16 == slack.base() / 16 && gap.end() <= slack.base() / 16 * 16 + 16 && gap.bytes > 0);
        for (std::uint64_t i = gap.base; i < gap.end(); ++i) ++found[i];
      }
    }
    CHECK(found == expected);
  }
}

}  // namespace

int main() {
  small_regions_take_a_whole_block();
  neighbours_are_one_and_strangers_are_not();
  a_region_over_a_border_takes_both_blocks();
  registered_memory_is_not_the_driver_s();
  managed_memory_is_apart_unless_it_shares_a_block();
  every_region_is_inside_and_nothing_overlaps();
  what_regions_leave_of_their_granules_is_slack();
  slack_is_what_is_mapped_and_no_region_s();
  return kerncap::test::exit_code();
}
