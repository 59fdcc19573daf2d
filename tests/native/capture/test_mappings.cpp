// Physical memory, its handles, and the rights of its mappings.
#include <vector>

#include "../check.hpp"
#include "capture/mappings.hpp"

using namespace kerncap::capture;

namespace {

constexpr std::uint64_t k_size = 0x4000;

std::vector<Allocation> list(const Mappings& all, std::uint32_t device) {
  std::vector<Allocation> out;
  all.append_to(out, device);
  return out;
}

void mappings_follow_handles_and_rights() {
  Mappings all;
  all.add_handle(7, {.device = 2, .is_foreign = false});
  all.map(0x10000, k_size, 7);
  all.map(0x14000, k_size, 8);  // a handle of another process
  all.release_handle(7);
  CHECK(!all.knows_handle(7) && list(all, 1).empty());
  all.set_access(0x10000, 2 * k_size, 1, true, false);
  all.set_access(0x10000, k_size, 2, true, true);
  const std::vector<Allocation> regions = list(all, 1);
  CHECK(regions.size() == 2);
  CHECK(regions[0].kind == MemoryKind::vmem && regions[0].device == 2 && regions[0].access == 0b110);
  CHECK(regions[1].kind == MemoryKind::ipc && regions[1].access == 0b10 && regions[1].is_shared());
  // Each device has rights of its own.
  CHECK(regions[0].flags == k_region_read_only && regions[1].flags == k_region_read_only);
  CHECK(list(all, 2).size() == 1 && list(all, 2)[0].flags == 0);
  all.set_access(0x10000, k_size, 2, false, false);
  CHECK(list(all, 2).empty() && list(all, 1)[0].access == 0b10);
}

void other_rights_are_known_as_such() {
  Mappings all;
  all.add_handle(7, {.device = 0, .is_foreign = false});
  all.map(0x10000, k_size, 7);
  CHECK(!all.changes_access(0x10000, k_size, 0, true, true));   // the first rights
  all.set_access(0x10000, k_size, 0, true, true);
  CHECK(!all.changes_access(0x10000, k_size, 0, true, true) && !all.changes_access(0x10000, k_size, 1, true, true));
  CHECK(all.changes_access(0x10000, k_size, 0, false, false) && all.changes_access(0x10000, k_size, 0, true, false));
  CHECK(!all.changes_access(0x14000, k_size, 0, false, false));
}

void a_device_may_only_write() {
  Mappings all;
  all.add_handle(7, {.device = 0, .is_foreign = false});
  all.map(0x10000, k_size, 7);
  all.set_access(0x10000, k_size, 0, false, true);
  CHECK(list(all, 0).size() == 1 && list(all, 0)[0].flags == 0);
}

void what_is_unmapped_can_be_put_back() {
  Mappings all;
  all.map(0x10000, k_size, 7);
  all.map(0x14000, k_size, 7);
  all.set_access(0x10000, 2 * k_size, 0, true, true);
  Mappings::ByBase gone = all.unmap(0x10000, 2 * k_size);
  CHECK(gone.size() == 2 && list(all, 0).empty());
  all.map(0x14000, 2 * k_size, 7);  // the address has been given out again
  all.set_access(0x14000, 2 * k_size, 0, true, true);
  all.put_back(gone);
  CHECK(list(all, 0).size() == 2 && list(all, 0)[0].base == 0x10000 && list(all, 0)[1].bytes == 2 * k_size);
}

void mappings_of_one_piece_say_so() {
  Mappings all;
  all.add_handle(7, {.is_foreign = false});
  all.map(0x10000, k_size, 7);
  all.add_handle_at(9, 0x13FFF);
  all.add_handle_at(10, 0x14000);  // nothing is mapped there
  all.map(0x20000, k_size, 9);
  all.add_handle(7, {.is_foreign = false});  // handles are given out again
  all.map(0x30000, k_size, 7);
  all.set_access(0x10000, 0x30000, 0, true, true);
  CHECK(!all.knows_handle(10));
  all.export_handle(9);
  const std::vector<Allocation> regions = list(all, 0);
  CHECK(regions[0].piece != 0 && regions[0].piece == regions[1].piece && regions[1].piece != regions[2].piece);
  CHECK(regions[0].is_exported && regions[1].is_exported && !regions[2].is_exported);
}

void what_cannot_be_read_is_not_listed() {
  Mappings all;
  all.add_handle(7, {.device = 1, .is_multicast = true});
  all.map(0x10000, k_size, 7);
  all.set_access(0x10000, k_size, 0, true, true);
  CHECK(list(all, 0).empty());
}

void who_may_write_reaches() {
  Mappings all;
  all.add_handle(7, {.device = 1, .is_foreign = false});
  all.map(0x10000, k_size, 7);
  all.set_access(0x10000, k_size, 0, true, false);
  CHECK(!all.reaches(0, 1));
  all.set_access(0x10000, k_size, 0, true, true);
  CHECK(all.reaches(0, 1) && !all.reaches(0, 2) && !all.reaches(1, 0));
}

}  // namespace

int main() {
  mappings_follow_handles_and_rights();
  other_rights_are_known_as_such();
  a_device_may_only_write();
  what_is_unmapped_can_be_put_back();
  mappings_of_one_piece_say_so();
  what_cannot_be_read_is_not_listed();
  who_may_write_reaches();
  return kerncap::test::exit_code();
}
