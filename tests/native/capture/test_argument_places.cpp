// Which memory is known to hold arguments of dispatches.
#include "capture/argument_places.hpp"

#include <algorithm>
#include <thread>
#include <vector>

#include "../check.hpp"

using kerncap::capture::ArgumentPlaces;

namespace {

constexpr std::uint64_t k_mib = 1 << 20;
constexpr std::uint64_t k_base = 0x7f0000000000;

std::vector<std::uint64_t> sorted(const ArgumentPlaces& places) {
  std::vector<std::uint64_t> all = places.all();
  std::sort(all.begin(), all.end());
  return all;
}

void the_latest_of_each_mib_is_known() {
  ArgumentPlaces places;
  CHECK(places.all().empty());
  for (const std::uint64_t at : {k_base, k_base + 64, k_base + 3 * k_mib, k_base + 128}) places.see(at);
  CHECK((sorted(places) == std::vector<std::uint64_t>{k_base + 128, k_base + 3 * k_mib}));
}

// Two pools a multiple of all places apart are both known, and as many as are looked for.
void memory_of_one_place_is_told_apart() {
  ArgumentPlaces places;
  std::vector<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 8; ++i) seen.push_back(k_base + i * 1024 * k_mib);
  for (int turn = 0; turn < 3; ++turn) {
    for (const std::uint64_t at : seen) places.see(at);
  }
  CHECK(sorted(places) == seen);
  places.see(k_base + 8 * 1024 * k_mib);   // one too many takes the place of another
  CHECK(places.all().size() == 8);
}

void new_memory_holds_no_arguments() {
  ArgumentPlaces places;
  for (const std::uint64_t at : {k_base + 16, k_base + k_mib, k_base + 2 * k_mib}) places.see(at);
  places.forget(k_base + 17, 2 * k_mib - 17);
  CHECK((sorted(places) == std::vector<std::uint64_t>{k_base + 16, k_base + 2 * k_mib}));
  places.see(k_base + k_mib + 8);
  CHECK(places.all().size() == 3);
}

void threads_lose_nothing() {
  ArgumentPlaces places;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&places, t] {
      for (std::uint64_t i = 0; i < 20000; ++i) places.see(k_base + t * 1024 * k_mib + i % k_mib);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::uint64_t> mibs;
  for (const std::uint64_t at : places.all()) mibs.push_back(at / k_mib);
  std::sort(mibs.begin(), mibs.end());
  mibs.erase(std::unique(mibs.begin(), mibs.end()), mibs.end());
  CHECK(mibs.size() == 4);
}

}  // namespace

int main() {
  the_latest_of_each_mib_is_known();
  memory_of_one_place_is_told_apart();
  new_memory_holds_no_arguments();
  threads_lose_nothing();
  return 0;
}
