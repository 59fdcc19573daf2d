// Which dispatches a rule takes, and the table that every dispatch is looked up in.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../check.hpp"
#include "capture/selection.hpp"
#include "hsa/kernels.hpp"

using namespace kerncap::hsa;
using kerncap::capture::Cases;
using kerncap::capture::Control;
using kerncap::capture::Rule;
using kerncap::capture::Shape;
using kerncap::capture::take;
using kerncap::capture::uncount;

namespace {

std::string taken(const Rule& rule, int dispatches) {
  Control control{};
  Cases cases;
  const Shape shape{{1000, 1, 1}, {256, 1, 1}};
  std::string marks;
  for (int i = 0; i < dispatches; ++i) marks += take(rule, control, cases, 1, shape) ? 'x' : '.';
  CHECK(control.matched[1] == static_cast<std::uint64_t>(dispatches));
  return marks;
}

void rules_count_from_zero() {
  CHECK(taken({}, 4) == "x...");
  CHECK(taken({.first = 2}, 5) == "..x..");
  CHECK(taken({.first = 1, .every = 1, .count = 3}, 6) == ".xxx..");
  CHECK(taken({.first = 1, .every = 3, .count = 2}, 9) == ".x..x....");
}

void the_grid_is_in_work_groups_and_a_partial_one_counts() {
  CHECK(taken({.first = 0, .every = 1, .count = 9, .grid_blocks = {4, 0, 0}}, 2) == "xx");
  Control control{};
  Cases cases;
  const Shape shape{{1000, 1, 1}, {256, 1, 1}};
  CHECK(!take({.first = 0, .every = 1, .count = 9, .grid_blocks = {3, 0, 0}}, control, cases, 2, shape));
  CHECK(!take({.first = 0, .every = 1, .count = 9, .grid_blocks = {4, 2, 0}}, control, cases, 2, shape));
  CHECK(control.matched[2] == 0);  // a dispatch of another shape is no match, and does not count
  CHECK(control.other_grid[2] == (std::uint64_t{4} | std::uint64_t{1} << 32 | std::uint64_t{1} << 48));
  CHECK((Shape{{8, 1 << 20, 3}, {1, 1, 1}}.packed_blocks() == (8 | 0xFFFFull << 32 | 3ull << 48)));
}

void the_block_tells_configurations_of_one_grid_apart() {
  Control control{};
  Cases cases;
  const Rule rule{.first = 0, .every = 1, .count = 9, .grid_blocks = {4, 0, 0}, .block_work_items = {64, 2, 0}};
  CHECK(take(rule, control, cases, 0, {{256, 2, 3}, {64, 2, 3}}).has_value());
  CHECK(!take(rule, control, cases, 0, {{512, 2, 1}, {128, 2, 1}}));
  CHECK(!take(rule, control, cases, 0, {{256, 2, 1}, {64, 1, 1}}));
  CHECK(!take(rule, control, cases, 0, {{320, 2, 1}, {64, 2, 1}}));
  CHECK(control.matched[0] == 1);
  CHECK(control.other_grid[0] == (5ull | 1ull << 32 | 1ull << 48));
  CHECK(control.other_block[0] == (64ull | 2ull << 16 | 1ull << 32));
}

void a_case_is_one_dispatch_of_a_shape() {
  Control control{};
  Cases cases;
  const Rule rule{.count = 3, .cases = 1};
  const auto launch = [&](std::uint64_t blocks, std::uint32_t block) {
    return take(rule, control, cases, 0, {{blocks * block, 1, 1}, {block, 1, 1}});
  };
  CHECK(launch(4, 64) == 0u && !launch(4, 64));
  CHECK(launch(4, 128) == 1u && launch(5, 64) == 2u);
  CHECK(!launch(6, 64));  // three were wanted
  CHECK(uncount(control.matched[0], 2));
  cases.give_back(0);
  CHECK(launch(5, 64) == 2u);
  CHECK(control.matched[0] == 3);
  const Rule listed{.count = 2, .cases = 1, .shapes = {{{7, 1, 1}, {64, 1, 1}}, {{9, 1, 1}, {64, 1, 1}}}};
  CHECK(!take(listed, control, cases, 1, {{64, 1, 1}, {64, 1, 1}}));
  CHECK(take(listed, control, cases, 1, {{576, 1, 1}, {64, 1, 1}}) == 0u);
  CHECK(take(listed, control, cases, 1, {{448, 1, 1}, {64, 1, 1}}) == 1u);
}

void a_number_is_given_back_while_it_is_the_latest() {
  std::atomic<std::uint64_t> matched{3};
  CHECK(uncount(matched, 2));
  CHECK(matched == 2);
  CHECK(!uncount(matched, 0));  // another dispatch has been given 1 since
  CHECK(matched == 2);
}

void the_table_survives_growth_reuse_and_readers() {
  KernelTable table;
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      for (std::uint64_t i = 1; i <= 20000; i += 37) {
        const Kernel* kernel = table.find(i * 64);
        CHECK(kernel == nullptr || kernel->id == i || kernel->id == i + 1'000'000);
      }
    }
  });
  for (std::uint64_t i = 1; i <= 20000; ++i) {
    table.add(i * 64, {.id = static_cast<std::uint32_t>(i), .module = i % 2});
  }
  for (std::uint64_t i = 1; i <= 20000; ++i) CHECK(table.find(i * 64)->id == i);
  CHECK(table.find(20001 * 64) == nullptr);
  table.remove_module(1);
  for (std::uint64_t i = 1; i <= 20000; ++i) CHECK((table.find(i * 64) == nullptr) == (i % 2 == 1));
  // Another kernel at the address of one that is gone.
  for (std::uint64_t i = 1; i <= 20000; i += 2) {
    table.add(i * 64, {.id = static_cast<std::uint32_t>(i + 1'000'000), .module = 5});
  }
  for (std::uint64_t i = 1; i <= 20000; i += 2) CHECK(table.find(i * 64)->id == i + 1'000'000);
  stop = true;
  reader.join();
}

}  // namespace

int main() {
  rules_count_from_zero();
  the_grid_is_in_work_groups_and_a_partial_one_counts();
  the_block_tells_configurations_of_one_grid_apart();
  a_case_is_one_dispatch_of_a_shape();
  a_number_is_given_back_while_it_is_the_latest();
  the_table_survives_growth_reuse_and_readers();
  return kerncap::test::exit_code();
}
