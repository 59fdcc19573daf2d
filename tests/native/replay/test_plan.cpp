// Plans: followed whole or not at all; what they say of ranges, code objects and variables.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "../check.hpp"
#include "replay/address_space.hpp"
#include "replay/plan.hpp"
#include "replay/plan_line.hpp"
#include "replay/references.hpp"
#include "stub_driver.hpp"

using namespace kerncap::replay;

namespace {

const std::string k_head =
    "kcplan 2\nstore /s\ncode baseline /b.co\nsymbol k\nisa amdgcn-amd-amdhsa--gfx90a\nkernel_device 0\n"
    "grid 64 1 1\nblock 64 1 1\nkernarg 0102030405060708\n";

kerncap::core::Result<Plan> parsed(const std::string& text, Driver& driver) {
  const std::string path = "/tmp/kerncap-test-plan-" + std::to_string(::getpid());
  std::ofstream(path) << text;
  auto plan = read_plan(path, driver);
  std::remove(path.c_str());
  return plan;
}

kerncap::core::Result<Plan> parsed(const std::string& text) {
  kerncap::test::StubDriver driver;
  return parsed(text, driver);
}

std::string region(const char* base, const char* bytes, const char* kind, const char* device, const char* flags = "0",
                   const char* own = "0", const char* piece = "0") {
  return std::string("region ") + base + " " + bytes + " " + kind + " " + device + " 0x1 " + flags + " 0x0 4096 " +
         own + " " + piece + " - -\n";
}

void a_line_that_is_not_understood_ends_it() {
  CHECK(parsed(k_head).ok());
  for (const char* bad : {"nonsense 1\n", "grid 1 2\n", "kernarg 0g\n",
                          "region 0x1000 4096 gold 0 0x1 0 0x0 4096 0 0 - -\n", "chunk -\n", "kernarg 0\n",
                          "written 0 0 1\n", "code other /x\n", "store /a\\\n", "store /a\\b\n", "argument 8\n",
                          "block 64 0 1\n", "grid 0 1 1\n",
                          "change 0 aa\n", "state\nchange 0 aa\n"}) {
    const auto plan = parsed(k_head + bad);
    CHECK(!plan.ok());
    if (!plan.ok()) CHECK(plan.error().message.find("not understood") != std::string::npos);
  }
  CHECK(!parsed(k_head + "verified aa\n").ok());  // there is no such memory
  CHECK(!parsed("kcplan 1\n").ok());
  CHECK(!parsed("kcplan 2\nstore /s\n").ok());
  CHECK(!parsed(k_head + "memory aa 8192 4096\nchunk -\n").ok());  // a chunk is missing
}

void a_path_may_hold_a_line_break() {
  const auto plan = parsed(k_head + "store /a\\nb\\\\n\ncode variant /c d\n");
  CHECK(plan.ok());
  CHECK(plan.value().store == "/a\nb\\n");
  CHECK(plan.value().variant == "/c d");
}

void a_further_state_changes_only_what_is_put_back() {
  const std::string states = "memory aa 8192 4096\nchunk -\nchunk -\nmemory bb 8192 8192\nchunk -\nmemory cc 4096 4096\nchunk -\n";
  const auto with = [&](const char* flags, const char* own, const char* change) {
    const std::string place = std::string("region 0x1000 8192 device_coarse 0 0x1 ") + flags + " 0x0 0 " + own + " 0 aa -\n";
    return parsed(k_head + states + place + "state\nstate\nchange 0 " + change + "\n");
  };
  const auto plan = with("0", "0", "aa");
  CHECK(plan.ok());
  CHECK(plan.value().states.size() == 2 && plan.value().states[0].changes.empty());
  CHECK(plan.value().states[1].changes.at(0).memory == plan.value().regions[0].pre);
  CHECK(!with("1", "0", "aa").ok());  // the program could not write there
  CHECK(with("0", "1", "aa").ok());   // the variables of the kernel's own code
  CHECK(!with("0", "0", "bb").ok());  // other chunks
  CHECK(!with("0", "0", "cc").ok());  // shorter
  CHECK(!with("0", "0", "-").ok());
}

void a_state_is_as_long_as_its_region() {
  const std::string state = "memory aa 8192 4096\nchunk -\nchunk -\n";
  const std::string place = "region 0x1000 8192 device_coarse 0 0x1 0 0x0 0 0 0 aa ";
  CHECK(parsed(k_head + state + place + "aa\n").ok());
  const std::string shorter = "memory bb 4096 4096\nchunk -\n";
  const auto plan = parsed(k_head + state + shorter + place + "bb\n");
  CHECK(!plan.ok());
  if (!plan.ok()) CHECK(plan.error().message.find("8192 bytes has a state of 4096") != std::string::npos);
}

void a_state_after_the_kernel_has_one_before_it_in_equal_chunks() {
  const std::string before = "memory aa 8192 4096\nchunk -\nchunk -\n", after = "memory bb 8192 8192\nchunk -\n";
  const std::string place = "region 0x1000 8192 device_coarse 0 0x1 0 0x0 0 0 0 ";
  CHECK(parsed(k_head + before + place + "aa -\n").ok());
  CHECK(!parsed(k_head + before + place + "- aa\n").ok());
  CHECK(!parsed(k_head + before + after + place + "aa bb\n").ok());
}

// Its own lines are `own NUMBER`, below the length of the arguments that came before.
class OwnLines final : public kerncap::test::StubDriver {
 public:
  bool read_line(std::string_view what, PlanLine& line, const Plan& plan) override {
    if (what != "own") return false;
    numbers.push_back(line.number());
    line.ok = line.ok && numbers.back() < plan.kernarg.size();
    return true;
  }

  std::vector<std::uint64_t> numbers;
};

void what_only_the_back_end_knows_is_read_by_its_driver() {
  OwnLines driver;
  const auto fine = parsed(k_head + "own 5\ngrid 8589934592 1 1\nown 0x7\n", driver);
  CHECK(fine.ok() && fine.value().shape.grid[0] == std::uint64_t{1} << 33);
  CHECK((driver.numbers == std::vector<std::uint64_t>{5, 7}));
  for (const char* bad : {"own 8\n", "own x\n", "own\n", "other 5\n"}) {
    const auto plan = parsed(k_head + bad, driver);
    const std::string line(bad, std::strlen(bad) - 1);
    CHECK(!plan.ok() && plan.error().message.ends_with(":10: not understood: " + line));
  }
}

void a_variant_may_have_a_launch_of_its_own() {
  CHECK(!parsed(k_head).value().variant_shape);
  const auto plan = parsed(k_head + "grid 256 1 1\nblock 64 1 1\nvariant_shape 512 2 1 32 2 1 1024\n");
  CHECK(plan.ok() && plan.value().shape.grid[0] == 256 && plan.value().variant_shape);
  const auto& own = *plan.value().variant_shape;
  CHECK(own.grid[0] == 512 && own.grid[1] == 2 && own.block[0] == 32 && own.block[1] == 2 && own.dynamic_lds_bytes == 1024);
  for (const char* bad : {"variant_shape 512 2 1 0 2 1 1024\n", "variant_shape 512 2 1 32 2 1\n"}) CHECK(!parsed(k_head + bad).ok());
}

void regions_ascend_and_do_not_overlap() {
  CHECK(!parsed(k_head + region("0x2000", "4096", "device_coarse", "0") + region("0x1000", "4096", "device_coarse", "0")).ok());
  CHECK(!parsed(k_head + region("0x1000", "8192", "device_coarse", "0") + region("0x2000", "4096", "device_coarse", "0")).ok());
}

void neighbours_of_one_kind_are_one_range_unless_they_share_memory() {
  auto plan = parsed(k_head + region("0x1000", "4096", "device_coarse", "0") + region("0x2000", "100", "device_coarse", "0") +
                     region("0x3000", "4096", "vmem", "0", "0", "0", "7") + region("0x4000", "4096", "vmem", "0", "0", "0", "7") +
                     region("0x5000", "4096", "vmem", "0", "1"));
  CHECK(plan.ok());
  const auto ranges = ranges_of(plan.value());
  CHECK(ranges.ok() && ranges.value().size() == 4);
  if (!ranges.ok() || ranges.value().size() != 4) return;
  CHECK(ranges.value()[0].base == 0x1000 && ranges.value()[0].bytes == 0x2000);
  CHECK(ranges.value()[1].first->piece == 7 && ranges.value()[2].first->piece == 7);
  CHECK((ranges.value()[3].first->flags & k_flag_read_only) != 0);
}

void different_kinds_cannot_share_a_page() {
  const auto plan = parsed(k_head + region("0x1000", "100", "device_coarse", "0") + region("0x1800", "100", "host_pinned", "-"));
  CHECK(plan.ok() && !ranges_of(plan.value()).ok());
}

void the_code_object_is_one_range_with_all_of_its_data() {
  auto plan = parsed(k_head + "loaded 0x10000 0x3031\n" + region("0x1000", "4096", "device_coarse", "0") +
                     region("0x12000", "8192", "code_object", "0", "0", "1") +
                     region("0x20000", "4096", "device_coarse", "0"));
  CHECK(plan.ok());
  const auto ranges = ranges_of(plan.value());
  CHECK(ranges.ok() && ranges.value().size() == 3);
  CHECK(ranges.value()[1].is_code() && ranges.value()[1].base == 0x10000 && ranges.value()[1].bytes == 0x4000);
  const auto crowded = parsed(k_head + "loaded 0x10000 0x3031\n" + region("0x13000", "4096", "device_coarse", "0"));
  CHECK(crowded.ok() && !ranges_of(crowded.value()).ok());
}

void pointers_to_variables_are_found_in_aligned_words_only() {
  auto plan = parsed(k_head + "variable 0x12000 16 - - a\nvariable 0x12100 4 - - b\n");
  CHECK(plan.ok());
  References references(plan.value());
  CHECK(references.wanted());
  const std::uint64_t words[] = {0x11FFF, 0x12010, 0x12104, 0x0001200000000000, ~0ull};
  references.look_at(std::as_bytes(std::span(words)));
  CHECK(references.found().empty());
  const std::uint64_t inside[] = {1, 0x1200F};
  references.look_at(std::as_bytes(std::span(inside)));
  CHECK(references.found().size() == 1 && (*references.found().begin())->name == "a");
}

void a_variable_is_written_where_its_region_is() {
  auto plan = parsed(k_head + region("0x12000", "4096", "code_object", "0") + "written 0 16 4\n" +
                     "variable 0x12000 16 - - before\nvariable 0x12010 8 - - there\nvariable 0x12014 4 - - behind\n");
  CHECK(plan.ok());
  const auto& variables = plan.value().variables;
  CHECK(!plan.value().is_written(variables[0]));
  CHECK(plan.value().is_written(variables[1]));
  CHECK(!plan.value().is_written(variables[2]));
  for (const char* beyond : {"written 0 4096 1\n", "written 0 0xffffffffffffffff 2\n", "written 0 8 0xfffffffffffffff8\n"}) {
    CHECK(!parsed(k_head + region("0x12000", "4096", "code_object", "0") + beyond).ok());
  }
}

}  // namespace

int main() {
  a_line_that_is_not_understood_ends_it();
  a_path_may_hold_a_line_break();
  a_further_state_changes_only_what_is_put_back();
  a_state_is_as_long_as_its_region();
  a_state_after_the_kernel_has_one_before_it_in_equal_chunks();
  what_only_the_back_end_knows_is_read_by_its_driver();
  a_variant_may_have_a_launch_of_its_own();
  regions_ascend_and_do_not_overlap();
  neighbours_of_one_kind_are_one_range_unless_they_share_memory();
  different_kinds_cannot_share_a_page();
  the_code_object_is_one_range_with_all_of_its_data();
  pointers_to_variables_are_found_in_aligned_words_only();
  a_variable_is_written_where_its_region_is();
  return kerncap::test::exit_code();
}
