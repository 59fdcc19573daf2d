// The book-keeping of allocations against plain models of it.
#include "../check.hpp"
#include "cuda/allocations.hpp"

using namespace kerncap::cuda;
using kerncap::capture::MemoryKind;

namespace {

Allocation region(std::uint64_t base, std::uint64_t bytes, std::uint64_t access = 1) {
  Allocation made;
  made.base = base;
  made.bytes = bytes;
  made.device = 0;
  made.access = access;
  return made;
}

void what_is_freed_is_out_of_reach() {
  Allocations allocations;
  allocations.add(region(0x1000, 0x100));
  allocations.add(region(0x2000, 0x100, 0b10));
  allocations.add(region(0x3000, 0));  // nothing
  CHECK(allocations.reachable(0).size() == 1);
  CHECK(allocations.reachable(1).size() == 1 && allocations.reachable(1)[0].base == 0x2000);
  CHECK(allocations.remove(0x1000, 1));
  CHECK(!allocations.remove(0x1000, 2));
  CHECK(allocations.reachable(0).empty());
  allocations.ended(2, false);
  allocations.ended(1, true);
  CHECK(allocations.reachable(0).empty());
}

void what_could_not_be_freed_is_there_again() {
  Allocations allocations;
  allocations.add(region(0x1000, 0x100));
  allocations.add(region(0x3000, 0x100));
  CHECK(allocations.remove(0x1000, 1) && allocations.remove(0x3000, 2));
  allocations.ended(1, false);
  CHECK(allocations.reachable(0).size() == 1 && allocations.reachable(0)[0].base == 0x1000);
  allocations.ended(1, false);  // once
  CHECK(allocations.reachable(0).size() == 1);
  allocations.add(region(0x3000, 0x200));  // another thread was given the address
  allocations.ended(2, false);
  CHECK(allocations.reachable(0).size() == 2 && allocations.reachable(0)[1].bytes == 0x200);
  // Why the call failed is not known: the memory may be gone with its context.
  std::vector<std::uint64_t> asked;
  allocations.drop_what_went([&asked](std::uint64_t base) {
    asked.push_back(base);
    return false;
  });
  CHECK(asked == std::vector<std::uint64_t>{0x1000});
  CHECK(allocations.reachable(0).size() == 1 && allocations.reachable(0)[0].base == 0x3000);
}

void what_could_not_be_unmapped_is_there_again() {
  Allocations allocations;
  allocations.mappings().add_handle(7, {.device = 0, .is_foreign = false});
  allocations.mappings().map(0x200000, 0x200000, 7);
  allocations.mappings().map(0x400000, 0x200000, 7);
  allocations.mappings().set_access(0x200000, 0x400000, 0, true, true);
  allocations.unmap(0x200000, 0x400000, 1);
  CHECK(allocations.reachable(0).empty());
  allocations.ended(1, false);
  CHECK(allocations.reachable(0).size() == 2);
  allocations.unmap(0x200000, 0x200000, 2);
  allocations.ended(2, true);
  CHECK(allocations.reachable(0).size() == 1 && allocations.reachable(0)[0].base == 0x400000);
}

void memory_of_another_device_is_a_peer_s() {
  Allocations allocations;
  allocations.add(region(0x1000, 0x100));
  Allocation other = region(0x2000, 0x100, 0b10);
  other.device = 1;
  allocations.add(other);
  Allocation pinned = region(0x7000, 0x1000, kerncap::capture::k_every_device);
  pinned.device = kerncap::capture::k_no_device;
  allocations.add(pinned);
  CHECK(allocations.peer_at(0x2080, 0)->device == 1u && allocations.peer_at(0x2080, 0)->base == 0x2000);
  CHECK(allocations.peer_at(0x1080, 1)->device == 0u);
  CHECK(!allocations.peer_at(0x2080, 1) && !allocations.peer_at(0x1080, 0));
  CHECK(!allocations.peer_at(0x7010, 0));
  CHECK(!allocations.peer_at(0x2100, 0) && !allocations.peer_at(0x10, 0));
  CHECK(allocations.peer_bytes(0).empty());
  allocations.set_peer_access(0, 1);
  CHECK(allocations.peer_bytes(0).at(1) == 0x100 && allocations.peer_bytes(1).empty());
}

void mappings_of_one_handle_share_a_piece() {
  Allocations allocations;
  allocations.mappings().add_handle(7, {.device = 0, .is_foreign = false});
  allocations.mappings().add_handle(8, {.device = 0, .is_foreign = false});
  allocations.mappings().map(0x200000, 0x200000, 7);
  allocations.mappings().map(0x400000, 0x200000, 8);
  allocations.mappings().map(0x600000, 0x200000, 7);
  allocations.mappings().add_handle_at(9, 0x5fffff);
  allocations.mappings().add_handle_at(10, 0x900000);  // nothing is mapped there
  allocations.mappings().map(0x800000, 0x200000, 9);
  allocations.mappings().set_access(0x200000, 0x800000, 0, true, true);
  const std::vector<Allocation> found = allocations.reachable(0);
  CHECK(found.size() == 4 && found[0].piece != 0);
  CHECK(found[0].piece == found[2].piece && found[1].piece == found[3].piece && found[0].piece != found[1].piece);
  allocations.mappings().add_handle(7, {.device = 0, .is_foreign = false});  // the driver gives numbers out again
  allocations.mappings().map(0xa00000, 0x200000, 7);
  allocations.mappings().set_access(0xa00000, 0x200000, 0, true, true);
  CHECK(allocations.reachable(0)[4].piece != found[0].piece);
}

void what_a_context_held_may_outlive_it() {
  Allocations allocations;
  Allocation made = region(0x1000, 0x100);
  made.context = 5;
  allocations.add(made);
  made.base = 0x2000;
  allocations.add(made);
  made.base = 0x3000;
  made.context = 6;
  allocations.add(made);
  allocations.context_destroyed(5);
  CHECK(allocations.reachable(0).size() == 3);
  allocations.drop_what_went([](std::uint64_t base) { return base == 0x1000; });
  CHECK(allocations.reachable(0).size() == 2 && allocations.reachable(0)[0].base == 0x1000);
  allocations.drop_what_went([](std::uint64_t) { return false; });  // was asked already
  CHECK(allocations.reachable(0).size() == 2);
}

void host_memory_is_every_device_s() {
  Allocations allocations;
  Allocation pinned = region(0x7000, 0x1000, kerncap::capture::k_every_device);
  pinned.kind = MemoryKind::host_pinned;
  allocations.add(pinned);
  CHECK(allocations.reachable(0).size() == 1 && allocations.reachable(5).size() == 1);
}

void mappings_need_rights_and_outlive_their_handle() {
  Allocations allocations;
  allocations.mappings().add_handle(7, {.device = 0, .is_foreign = false});
  allocations.mappings().add_handle(8, {.device = 1, .is_foreign = true});
  allocations.mappings().map(0x200000, 0x200000, 7);
  allocations.mappings().map(0x400000, 0x200000, 8);
  CHECK(allocations.reachable(0).empty());
  allocations.mappings().set_access(0x200000, 0x400000, 0, true, false);
  const std::vector<Allocation> read_only = allocations.reachable(0);
  CHECK(read_only.size() == 2);
  CHECK(read_only[0].kind == MemoryKind::vmem && read_only[0].flags == kerncap::capture::k_region_read_only);
  CHECK(read_only[1].kind == MemoryKind::ipc && read_only[1].device == 1);
  allocations.mappings().set_access(0x200000, 0x200000, 0, true, true);
  CHECK(allocations.reachable(0)[0].flags == 0);
  allocations.mappings().set_access(0x200000, 0x200000, 0, false, false);
  CHECK(allocations.reachable(0).size() == 1);
  allocations.unmap(0x400000, 0x200000, 1);
  CHECK(allocations.reachable(0).empty());
}

void memory_of_the_host_that_was_mapped_belongs_to_no_device() {
  Allocations allocations;
  CHECK(!allocations.mappings().knows_handle(7));
  allocations.mappings().add_handle(7, {.device = kerncap::capture::k_no_device, .is_foreign = false});
  CHECK(allocations.mappings().knows_handle(7));
  allocations.mappings().map(0x200000, 0x200000, 7);
  allocations.mappings().set_access(0x200000, 0x200000, 1, true, true);
  CHECK(allocations.reachable(0).empty());
  const std::vector<Allocation> found = allocations.reachable(1);
  CHECK(found.size() == 1 && found[0].kind == MemoryKind::vmem && found[0].device == kerncap::capture::k_no_device);
}

void graph_memory_is_known_until_its_address_is_used_again() {
  Allocations allocations;
  allocations.add_graph_memory(0x9000, 0x100);
  CHECK(allocations.is_graph_memory(0x9000) && allocations.is_graph_memory(0x90FF));
  CHECK(!allocations.is_graph_memory(0x8FFF) && !allocations.is_graph_memory(0x9100));
  allocations.add(region(0x9000, 0x100));
  CHECK(!allocations.is_graph_memory(0x9000));
}

void what_cannot_be_read_is_out_of_reach() {
  Allocations allocations;
  allocations.mappings().add_handle(7, {.device = 0, .is_foreign = false});
  allocations.mappings().add_handle(8, {.is_multicast = true});
  allocations.mappings().add_handle(9, {.device = 0, .is_foreign = true});
  allocations.mappings().add_handle(9, {.is_multicast = true});  // as it turns out
  allocations.mappings().map(0x200000, 0x200000, 7);
  allocations.mappings().map(0x400000, 0x200000, 8);
  allocations.mappings().map(0x600000, 0x200000, 9);
  allocations.mappings().set_access(0x200000, 0x600000, 0, true, true);
  CHECK(allocations.reachable(0).size() == 1 && allocations.reachable(0)[0].base == 0x200000);
}

// The driver gives the same address each time that a handle is opened.
void shared_memory_goes_with_its_last_close() {
  Allocations known;
  for (int i = 0; i < 2; ++i) known.add_shared(region(0x1000, 0x100));
  known.remove_shared(0x1000, 1);
  known.ended(1, false);
  for (std::uint64_t call : {2, 3}) {
    CHECK(known.reachable(0).size() == 1);
    known.remove_shared(0x1000, call);
  }
  CHECK(known.reachable(0).empty());
  known.ended(3, false);
  CHECK(known.reachable(0).size() == 1);
  known.remove_shared(0x1000, 3);
  known.add_shared(region(0x1000, 0x100));
  known.remove_shared(0x1000, 4);
  CHECK(known.reachable(0).empty());
}

}  // namespace

int main() {
  shared_memory_goes_with_its_last_close();
  what_is_freed_is_out_of_reach();
  what_could_not_be_freed_is_there_again();
  what_could_not_be_unmapped_is_there_again();
  memory_of_another_device_is_a_peer_s();
  mappings_of_one_handle_share_a_piece();
  what_a_context_held_may_outlive_it();
  host_memory_is_every_device_s();
  mappings_need_rights_and_outlive_their_handle();
  memory_of_the_host_that_was_mapped_belongs_to_no_device();
  graph_memory_is_known_until_its_address_is_used_again();
  what_cannot_be_read_is_out_of_reach();
  return kerncap::test::exit_code();
}
