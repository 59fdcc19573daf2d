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

}  // namespace

int main() {
  small_regions_take_a_whole_block();
  neighbours_are_one_and_strangers_are_not();
  a_region_over_a_border_takes_both_blocks();
  registered_memory_is_not_the_driver_s();
  every_region_is_inside_and_nothing_overlaps();
  return kerncap::test::exit_code();
}
