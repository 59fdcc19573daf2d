// Hidden arguments: those of the launch follow its shape, pointers are kept only where captured memory is behind them.
#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string>

#include "../check.hpp"
#include "hsa/driver/hidden_arguments.hpp"

using namespace kerncap;
using replay::Plan;

namespace {

template <typename T>
T at(const std::vector<std::byte>& kernarg, std::size_t offset) {
  T value{};
  CHECK(offset + sizeof value <= kernarg.size());
  if (offset + sizeof value <= kernarg.size()) std::memcpy(&value, &kernarg[offset], sizeof value);
  return value;
}

void put(std::vector<std::byte>& kernarg, std::size_t offset, std::uint64_t value) {
  std::memcpy(&kernarg[offset], &value, sizeof value);
}

// As the plan has them.
bool reads(hsa::HiddenArguments& hidden, const Plan& plan, const std::string& text) {
  replay::PlanLine line(text);
  const std::string_view what = line.word();
  return hidden.read_line(what, line, plan) && line.ok;
}

// Two explicit pointers, then hidden arguments.
struct Captured {
  Plan plan;
  hsa::HiddenArguments hidden;

  Captured() {
    plan.kernarg.resize(96);
    put(plan.kernarg, 0, 0x111);
    put(plan.kernarg, 8, 0x222);
    put(plan.kernarg, 40, 0x7000'1000);   // heap: captured
    put(plan.kernarg, 48, 0x9000'0000);   // default queue: nothing there
    put(plan.kernarg, 56, 0x7000'2000);   // hostcall buffer: of a runtime that is gone
    put(plan.kernarg, 64, 77);            // offset, kept
    for (const char* slot : {"16 4 hidden_block_count_x", "20 4 hidden_block_count_y", "24 2 hidden_group_size_x",
                             "26 2 hidden_remainder_x", "28 4 hidden_dynamic_lds_size", "40 8 hidden_heap_v1",
                             "48 8 hidden_default_queue", "56 8 hidden_hostcall_buffer", "64 8 hidden_global_offset_x",
                             "72 8 hidden_queue_ptr"}) {
      CHECK(reads(hidden, plan, std::string("slot baseline ") + slot));
    }
    replay::Region heap;
    heap.base = 0x7000'0000;
    heap.bytes = 0x10000;
    plan.regions.push_back(heap);
  }
  void add_variant(std::uint64_t bytes, std::initializer_list<const char*> slots) {
    plan.variant_kernarg_bytes = bytes;
    for (const char* slot : slots) CHECK(reads(hidden, plan, std::string("slot variant ") + slot));
  }
  // As the engine gives it.
  std::vector<std::byte> rebuilt(bool is_variant, std::uint64_t queue = 0) const {
    std::vector<std::byte> kernarg = plan.kernarg;
    if (is_variant) kernarg.resize(std::max<std::size_t>(kernarg.size(), plan.variant_kernarg_bytes));
    return hidden.rebuild(plan, {{1000, 6, 1}, {256, 2, 1}, 512, kernarg, is_variant}, queue);
  }
};

void the_shape_of_the_launch_is_told_anew() {
  const std::vector<std::byte> kernarg = Captured().rebuilt(false);
  CHECK(kernarg.size() == 96);
  CHECK(at<std::uint64_t>(kernarg, 0) == 0x111);
  CHECK(at<std::uint64_t>(kernarg, 8) == 0x222);
  CHECK(at<std::uint32_t>(kernarg, 16) == 3);   // whole work-groups
  CHECK(at<std::uint32_t>(kernarg, 20) == 3);
  CHECK(at<std::uint16_t>(kernarg, 24) == 256);
  CHECK(at<std::uint16_t>(kernarg, 26) == 1000 % 256);
  CHECK(at<std::uint32_t>(kernarg, 28) == 512);
}

void only_pointers_into_captured_memory_are_kept() {
  const std::vector<std::byte> kernarg = Captured().rebuilt(false);
  CHECK(at<std::uint64_t>(kernarg, 40) == 0x7000'1000);
  CHECK(at<std::uint64_t>(kernarg, 48) == 0);
  CHECK(at<std::uint64_t>(kernarg, 56) == 0);
  CHECK(at<std::uint64_t>(kernarg, 64) == 77);
}

void the_queue_is_the_one_that_runs_it() {
  CHECK(at<std::uint64_t>(Captured().rebuilt(false), 72) == 0);
  CHECK(at<std::uint64_t>(Captured().rebuilt(false, 0x5000'0000), 72) == 0x5000'0000);
}

void a_variant_gets_its_own_hidden_arguments_at_its_own_offsets() {
  Captured captured;
  captured.add_variant(120, {"16 8 hidden_global_offset_x", "32 4 hidden_block_count_x", "36 2 hidden_grid_dims",
                             "104 8 hidden_heap_v1", "112 8 hidden_queue_ptr"});
  const std::vector<std::byte> kernarg = captured.rebuilt(true);
  CHECK(kernarg.size() == 120);
  CHECK(at<std::uint64_t>(kernarg, 0) == 0x111);
  CHECK(at<std::uint64_t>(kernarg, 16) == 77);
  CHECK(at<std::uint32_t>(kernarg, 24) == 0);   // what stood there is not the variant's
  CHECK(at<std::uint32_t>(kernarg, 32) == 3);
  CHECK(at<std::uint16_t>(kernarg, 36) == 2);
  CHECK(at<std::uint64_t>(kernarg, 104) == 0x7000'1000);
  CHECK(at<std::uint64_t>(kernarg, 112) == 0);
}

void a_variant_may_have_fewer() {
  Captured captured;
  captured.add_variant(24, {"16 4 hidden_block_count_x"});
  const std::vector<std::byte> kernarg = captured.rebuilt(true);
  CHECK(kernarg.size() == 24);
  CHECK(at<std::uint64_t>(kernarg, 8) == 0x222);
  CHECK(at<std::uint32_t>(kernarg, 16) == 3);
}

void a_variant_of_a_kernel_without_hidden_arguments_may_have_some() {
  Captured captured;
  captured.hidden = {};
  captured.plan.kernarg.assign(16, {});
  put(captured.plan.kernarg, 0, 5);
  captured.add_variant(24, {"16 4 hidden_block_count_x", "20 2 hidden_group_size_x"});
  const std::vector<std::byte> kernarg = captured.rebuilt(true);
  CHECK(kernarg.size() == 24);
  CHECK(at<std::uint64_t>(kernarg, 0) == 5);
  CHECK(at<std::uint32_t>(kernarg, 16) == 3);
  CHECK(at<std::uint16_t>(kernarg, 20) == 256);
}

void a_slot_lies_in_its_segment() {
  Captured captured;
  captured.plan.variant_kernarg_bytes = 8;
  for (const char* bad :
       {"slot baseline 92 8 hidden_heap_v1", "slot variant 4 8 hidden_heap_v1", "slot 0 4 hidden_heap_v1",
        "slot baseline 18446744073709551612 8 hidden_heap_v1", "slot baseline 0 4", "limit stack_limit 1"}) {
    CHECK(!reads(captured.hidden, captured.plan, bad));
  }
}

}  // namespace

int main() {
  the_shape_of_the_launch_is_told_anew();
  only_pointers_into_captured_memory_are_kept();
  the_queue_is_the_one_that_runs_it();
  a_variant_gets_its_own_hidden_arguments_at_its_own_offsets();
  a_variant_may_have_fewer();
  a_slot_lies_in_its_segment();
  a_variant_of_a_kernel_without_hidden_arguments_may_have_some();
  return kerncap::test::exit_code();
}
