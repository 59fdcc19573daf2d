// The book-keeping of allocations against a plain model of it.
#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "../check.hpp"
#include "capture/allocations.hpp"

using namespace kerncap::capture;

namespace {

Allocation region(std::uint64_t base, std::uint64_t bytes, std::uint64_t access = 1) {
  Allocation made;
  made.base = base;
  made.bytes = bytes;
  made.access = access;
  return made;
}

std::vector<Allocation> list(const auto& map) {
  std::vector<Allocation> out;
  map.append_to(out);
  return out;
}

void find_knows_both_ends() {
  AllocationMap map;
  map.add(region(0x1000, 0x1000));
  CHECK(!map.find(0xFFF));
  CHECK(map.find(0x1000)->base == 0x1000);
  CHECK(map.find(0x1FFF)->base == 0x1000);
  CHECK(!map.find(0x2000));
  CHECK(map.remove(0x1000));
  CHECK(!map.remove(0x1000));
  CHECK(!map.find(0x1000));
}

void the_owner_keeps_access() {
  AllocationMap map;
  Allocation owned = region(0x1000, 0x1000, 1);
  owned.device = 0;
  map.add(owned);
  map.set_access(0x1800, 0b10);
  CHECK(map.find(0x1000)->access == 0b11);
  map.set_access(0x3000, 0b100);  // nobody's address changes nothing
  CHECK(list(map).size() == 1);
}

void modules_go_as_a_whole() {
  AllocationMap map;
  for (std::uint64_t i = 0; i < 4; ++i) {
    Allocation segment = region(0x1000 * (i + 1), 0x1000);
    segment.kind = MemoryKind::code_object;
    segment.module = i % 2;
    map.add(segment);
  }
  map.add(region(0x10000, 0x1000));
  map.remove_module(1);
  CHECK(list(map).size() == 3);
  map.remove_module(0);
  CHECK(list(map).size() == 1);  // what is no code object has module 0 as well, and stays
}

void a_range_pinned_twice_stays_until_both_are_gone() {
  PinnedMap map;
  Allocation pinned = region(0x5000, 0x1000);
  pinned.host = 0x5000;
  map.lock(pinned);
  map.lock(pinned);
  map.unlock(0x5000);
  CHECK(list(map).size() == 1);
  map.unlock(0x5000);
  map.unlock(0x5000);
  CHECK(list(map).empty());
}

// One byte per page in the model: the mask of devices that have access.
void managed_ranges_equal_a_model_of_pages() {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    ManagedRanges ranges;
    std::map<std::uint64_t, std::uint64_t> model;
    for (int step = 0; step < 30; ++step) {
      const std::uint64_t begin = random() % 64;
      const std::uint64_t count = 1 + random() % 16;
      const std::uint64_t grant = random() % 2 == 0 ? 1 + random() % 3 : 0;
      const std::uint64_t deny = grant == 0 ? 1 + random() % 3 : 0;
      ranges.set_access(begin * 4096, count * 4096, grant, deny);
      for (std::uint64_t page = begin; page < begin + count; ++page) {
        model[page] = (model[page] & ~deny) | grant;
        if (model[page] == 0) model.erase(page);
      }
    }
    std::map<std::uint64_t, std::uint64_t> actual;
    for (const Allocation& range : list(ranges)) {
      for (std::uint64_t at = range.base; at < range.base + range.bytes; at += 4096) {
        CHECK(actual.emplace(at / 4096, range.access).second);
      }
    }
    CHECK(actual == model);
  }
}

// The second buffer lies where two were before, of which no call said that the program freed them.
void a_managed_buffer_is_one_range_wherever_others_were() {
  ManagedRanges ranges;
  ranges.set_access(0x2000, 0x1000, 1, 0);
  ranges.set_access(0x4000, 0x4000, 1, 0);
  ranges.set_access(0x1000, 0x5000, 1, 0);
  const std::vector<Allocation> found = list(ranges);
  CHECK(found.size() == 2);
  CHECK(found.front().base == 0x1000 && found.front().bytes == 0x5000);
  CHECK(found.back().base == 0x6000 && found.back().bytes == 0x2000);
  // Not where a part of it has other rights.
  ranges.set_access(0x2000, 0x1000, 2, 0);
  ranges.set_access(0x1000, 0x5000, 1, 0);
  CHECK(list(ranges).size() == 4);
}

// Every byte that any input covers is covered once, by the first input that covers it.
void disjoint_covers_all_and_nothing_twice() {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    std::vector<Allocation> input;
    for (std::uint64_t i = 0; i < 1 + random() % 12; ++i) {
      Allocation one = region(random() % 100, 1 + random() % 30, 1ull << (i % 60));
      one.module = i + 1;
      one.host = 1000 + one.base;
      input.push_back(one);
    }
    std::map<std::uint64_t, std::uint64_t> model;
    for (const Allocation& one : input) {
      for (std::uint64_t at = one.base; at < one.base + one.bytes; ++at) model.emplace(at, one.module);
    }
    std::map<std::uint64_t, std::uint64_t> actual;
    std::uint64_t end = 0;
    for (const Allocation& one : disjoint(input)) {
      CHECK(one.bytes > 0 && one.base >= end);
      CHECK(one.host == 1000 + one.base);
      end = one.base + one.bytes;
      for (std::uint64_t at = one.base; at < end; ++at) actual.emplace(at, one.module);
    }
    CHECK(actual == model);
  }
}

}  // namespace

int main() {
  find_knows_both_ends();
  the_owner_keeps_access();
  modules_go_as_a_whole();
  a_range_pinned_twice_stays_until_both_are_gone();
  managed_ranges_equal_a_model_of_pages();
  a_managed_buffer_is_one_range_wherever_others_were();
  disjoint_covers_all_and_nothing_twice();
  return kerncap::test::exit_code();
}
