// Lines of /proc/self/maps, and what this process has mapped itself.
#include <sys/mman.h>

#include "../check.hpp"
#include "core/process_maps.hpp"

using namespace kerncap;

namespace {

void test_a_line_is_read() {
  const auto file = core::read_mapping("7f365d9d0000-7f365d9d5000 rw-s 51163c000 00:01 2061                       /memfd:a b (deleted)");
  CHECK(file.has_value());
  CHECK(file->begin == 0x7f365d9d0000 && file->end == 0x7f365d9d5000);
  CHECK(file->is_readable() && file->is_writable() && !file->is_executable());
  CHECK(file->name == "/memfd:a b (deleted)");
  const auto anonymous = core::read_mapping("55d0c0000000-55d0c0021000 ---p 00000000 00:00 0 ");
  CHECK(anonymous.has_value() && anonymous->name.empty() && !anonymous->is_readable());
  const auto heap = core::read_mapping("55d0c0000000-55d0c0021000 r-xp 00000000 00:00 0                          [heap]");
  CHECK(heap.has_value() && heap->name == "[heap]" && heap->is_executable());
}

void test_what_is_no_line_is_left_out() {
  for (const char* line : {"", "x", "7f365d9d0000", "7f365d9d0000-", "7f365d9d0000-7f365d9d5000", "7f365d9d0000-7f365d9d5000 rw"}) {
    CHECK(!core::read_mapping(line).has_value());
  }
}

void test_a_mapping_of_this_process_is_found() {
  void* const made = ::mmap(nullptr, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(made != MAP_FAILED);
  const auto address = reinterpret_cast<std::uint64_t>(made);
  bool is_found = false;
  const auto mappings = core::process_mappings();
  CHECK(mappings.has_value());
  for (const core::ProcessMapping& each : *mappings) is_found = is_found || (each.begin <= address && address < each.end && each.is_readable());
  CHECK(is_found);
  ::munmap(made, 1 << 20);
}

}  // namespace

int main() {
  test_a_line_is_read();
  test_what_is_no_line_is_left_out();
  test_a_mapping_of_this_process_is_found();
  return test::exit_code();
}
