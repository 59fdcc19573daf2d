// The AQL packet processor: order, barriers, dependencies, what is refused and how, what a dispatch is made of.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "check.hpp"
#include "queue_harness.hpp"

using namespace kerncap::softgpu;
using namespace kerncap::softgpu::test;

namespace {

constexpr std::uint16_t k_kernel = 2, k_barrier_and = 3, k_agent = 4, k_barrier_or = 5, k_vendor = 0, k_barrier_bit = 1 << 8;

[[nodiscard]] aql::KernelDispatch kernel(const Device& device, std::uint16_t flags = 0, std::uint64_t completion = 0) {
  aql::KernelDispatch packet{};
  packet.header = static_cast<std::uint16_t>(k_kernel | flags);
  packet.setup = 1;
  packet.workgroup_size[0] = 64;
  packet.workgroup_size[1] = packet.workgroup_size[2] = 1;
  packet.grid_size[0] = 128;
  packet.grid_size[1] = packet.grid_size[2] = 1;
  packet.kernel_object = device.memory.va(k_data_at);
  packet.completion_signal = completion;
  return packet;
}

[[nodiscard]] aql::Barrier barrier(std::uint16_t type, std::initializer_list<std::uint64_t> dependencies, std::uint64_t completion) {
  aql::Barrier packet{};
  packet.header = type;
  std::copy(dependencies.begin(), dependencies.end(), packet.dep_signal);
  packet.completion_signal = completion;
  return packet;
}

void packets_retire_in_order() {
  AqlTester t;
  t.signal(0).value = t.signal(1).value = t.signal(2).value = 1;
  t.put(kernel(t, 0, t.signal_va(0)));
  t.put(kernel(t, 0, t.signal_va(1)));
  t.put(barrier(k_barrier_and, {}, t.signal_va(2)));
  t.step();
  CHECK(submitted().size() == 2);           // beside each other: no barrier bit
  CHECK(t.signal(2).value == 0);            // nor did the barrier packet wait for them
  CHECK(t.read_index() == 0);
  end(1);
  CHECK(t.signal(1).value == 0 && t.read_index() == 0 && (t.slot(1).header & 0xFF) == k_kernel);
  end(0);
  t.step();
  CHECK(t.signal(0).value == 0 && t.read_index() == 3);
  for (unsigned i = 0; i < 3; ++i) CHECK(t.slot(i).header == 1);  // free for the program
}

void barrier_bit_waits_for_all_before() {
  AqlTester t;
  t.signal(0).value = 1;
  t.put(kernel(t));
  t.put(barrier(k_barrier_and | k_barrier_bit, {}, t.signal_va(0)));
  t.put(kernel(t));
  t.step();
  CHECK(submitted().size() == 1 && t.signal(0).value == 1);
  end(0);
  t.step();
  CHECK(submitted().size() == 1 && t.signal(0).value == 0);
  end(0);
}

void barriers_wait_for_their_dependencies() {
  AqlTester t;
  for (unsigned i = 0; i < 4; ++i) t.signal(i).value = 1;
  t.put(barrier(k_barrier_and, {t.signal_va(0), 0, t.signal_va(1)}, t.signal_va(2)));
  CHECK(t.step() == Queue::Progress::polls);
  t.signal(0).value = 0;
  CHECK(t.step() == Queue::Progress::polls && t.signal(2).value == 1);
  t.signal(1).value = 0;
  t.step();
  CHECK(t.signal(2).value == 0);

  t.signal(0).value = t.signal(1).value = 1;
  t.put(barrier(k_barrier_or, {0, t.signal_va(0), t.signal_va(1)}, t.signal_va(3)));
  CHECK(t.step() == Queue::Progress::polls);
  t.signal(1).value = 0;
  t.step();
  CHECK(t.signal(3).value == 0);
  t.signal(3).value = 1;
  t.put(barrier(k_barrier_or, {}, t.signal_va(3)));  // waits for nothing
  t.step();
  CHECK(t.signal(3).value == 0);
}

void barrier_value_knows_four_conditions() {
  struct Case {
    std::uint32_t condition;
    std::int64_t value, mask, unmet, met;
  };
  constexpr Case k_cases[] = {{0, 5, -1, 4, 5}, {1, 5, -1, 5, 6}, {2, -1, -1, 3, -7}, {3, 8, -1, 7, 8}, {0, 0x10, 0xF0, 0x21, 0x1F}};
  for (const Case& each : k_cases) {
    AqlTester t;
    t.signal(0).value = each.unmet;
    t.signal(1).value = 1;
    aql::BarrierValue packet{};
    packet.header = k_vendor;
    packet.format = 2;
    packet.signal = t.signal_va(0);
    packet.value = each.value;
    packet.mask = each.mask;
    packet.condition = each.condition;
    packet.completion_signal = t.signal_va(1);
    t.put(packet);
    CHECK(t.step() == Queue::Progress::polls && t.signal(1).value == 1);
    t.signal(0).value = each.met;
    t.step();
    CHECK(t.signal(1).value == 0);
  }
}

// The runner sleeps while a kernel is all that a queue waits for.
void what_waits_for_memory_behind_a_kernel_is_looked_at() {
  AqlTester t;
  t.signal(0).value = 1;
  t.put(kernel(t));
  t.put(barrier(k_barrier_and | k_barrier_bit, {}, 0));
  t.put(barrier(k_barrier_and, {t.signal_va(0)}, 0));
  CHECK(t.step() == Queue::Progress::rests);
  t.changes = 0;
  end(0);
  CHECK(t.changes != 0);
}

void announced_but_unwritten_packets_are_waited_for() {
  AqlTester t;
  t.signal(0).value = 1;
  t.ring(1);  // two packets, of which the first is not there yet
  CHECK(t.step() == Queue::Progress::polls);
  t.slot(1).header = 1;
  const auto late = barrier(k_barrier_and, {}, t.signal_va(0));
  std::memcpy(&t.slot(0), &late, sizeof late);
  CHECK(t.step() == Queue::Progress::polls);
  CHECK(t.signal(0).value == 0 && t.read_index() == 1 && t.error() == 0);
}

// Producers of one queue ring in any order, and a later ring takes the place of one that nobody has read yet.
void a_ring_that_an_older_one_wrote_over_is_no_packet_lost() {
  AqlTester t;
  for (unsigned i = 0; i < 3; ++i) t.signal(i).value = 1;
  for (unsigned i = 0; i < 3; ++i) t.put(barrier(k_barrier_and, {}, t.signal_va(i)));
  t.write_index(3);
  t.ring(0);
  CHECK(t.step() == Queue::Progress::polls);
  CHECK(t.signal(0).value == 0 && t.signal(1).value == 1);  // it may be written still, and rung for later
  for (int i = 0; i < 1000 && t.signal(2).value != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    t.step();
  }
  CHECK(t.signal(1).value == 0 && t.signal(2).value == 0 && t.read_index() == 3);
  CHECK(t.step() == Queue::Progress::rests);
}

void a_place_that_is_only_reserved_is_not_taken_for_a_packet() {
  AqlTester t;
  for (std::uint64_t i = 0; i < k_ring_packets; ++i) t.put(kernel(t));
  t.step();
  CHECK(submitted().size() == k_ring_packets);
  t.write_index(2 * k_ring_packets);  // the ring is full: these wait for room
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(t.step() == Queue::Progress::rests && submitted().size() == k_ring_packets);
  for (std::uint64_t i = 0; i < k_ring_packets; ++i) end(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(t.step() == Queue::Progress::rests && submitted().empty());
}

void the_ring_goes_round() {
  AqlTester t;
  for (int i = 0; i < 100; ++i) {
    t.signal(0).value = 1;
    t.put(barrier(k_barrier_and, {}, t.signal_va(0)));
    t.step();
    CHECK(t.signal(0).value == 0);
  }
  CHECK(t.read_index() == 100);
}

void a_dispatch_has_all_of_its_packet() {
  AqlTester t(Target::gfx942);
  aql::KernelDispatch packet = kernel(t);
  packet.setup = 3;
  packet.workgroup_size[1] = 2;
  packet.grid_size[2] = 7;
  packet.group_segment_size = 1234;
  packet.kernarg_address = t.memory.va(k_data_at + 256);
  const std::uint64_t index = t.put(packet);
  t.step();
  CHECK(submitted().size() == 1);
  const Dispatch& d = submitted()[0].dispatch;
  CHECK(d.target == Target::gfx942 && d.descriptor_va == packet.kernel_object && d.kernarg_va == packet.kernarg_address);
  CHECK(d.packet_va == t.memory.va(k_ring_at) && d.queue_va == t.memory.va(k_queue_at) && d.dispatch_id == index);
  CHECK(d.grid[0] == 128 && d.grid[1] == 1 && d.grid[2] == 7 && d.group[0] == 64 && d.group[1] == 2 && d.group[2] == 1);
  CHECK(d.group_segment_size_bytes == 1234 && d.private_segment_size_bytes == 0 && d.owner == t.queue.get());
  end(0);
}

void time_stamps_only_where_profiling_is_on() {
  for (const bool on : {false, true}) {
    AqlTester t;
    t.memory.at<aql::Queue>(k_queue_at)->queue_properties = on ? aql::k_queue_profiling : 0;
    t.signal(0).value = 1;
    t.put(kernel(t, 0, t.signal_va(0)));
    t.step();
    DispatchOutcome outcome;
    outcome.begin_ns = 5'000;
    outcome.end_ns = 9'000;
    end(0, outcome);
    CHECK(t.signal(0).start_ts == (on ? 500 : 0) && t.signal(0).end_ts == (on ? 900 : 0));
  }
}

void scratch_is_asked_for_and_awaited() {
  AqlTester t;
  auto& amd_queue = *t.memory.at<aql::Queue>(k_queue_at);
  aql::KernelDispatch packet = kernel(t);
  packet.private_segment_size = 64;
  t.put(packet);
  CHECK(t.step() == Queue::Progress::polls && submitted().empty());
  CHECK(t.error() == static_cast<std::uint32_t>(aql::QueueError::scratch_wave64));
  amd_queue.scratch_wave64_lane_byte_size = 64;
  amd_queue.scratch_backing_memory_location = t.memory.va(k_data_at + 4096);
  amd_queue.compute_tmpring_size = 8 | 4 << 12;  // 8 waves, 4 KiB each
  t.signal(AqlTester::k_inactive).value = 0;     // ROCr's answer
  t.step();
  CHECK(submitted().size() == 1);
  if (submitted().empty()) return;
  const auto& scratch = submitted()[0].dispatch.scratch;
  CHECK(scratch != nullptr && scratch->count() == 8 && scratch->bytes_per_wave() == 4096);
  CHECK(scratch->base() == amd_queue.scratch_backing_memory_location);
  end(0);
}

using Change = std::function<void(aql::KernelDispatch&)>;

void impossible_dispatches_are_refused() {
  struct Case {
    aql::QueueError error;
    Change change;
  };
  const Case cases[] = {
      {aql::QueueError::invalid_dimension, [](auto& p) { p.setup = 0; }},
      {aql::QueueError::invalid_dimension, [](auto& p) { p.grid_size[1] = 0; }},
      {aql::QueueError::invalid_dimension, [](auto& p) { p.workgroup_size[2] = 0; }},
      {aql::QueueError::group_too_large, [](auto& p) { p.workgroup_size[0] = 1025; }},
      {aql::QueueError::group_too_large, [](auto& p) { std::fill_n(p.workgroup_size, 3, std::uint16_t{0xFFFF}); }},
      {aql::QueueError::invalid_group_memory, [](auto& p) { p.group_segment_size = 65537; }},
      {aql::QueueError::invalid_code, [](auto& p) { p.kernel_object = 0x123456789000; }},
      {aql::QueueError::invalid_code, [](auto& p) { p.kernel_object = 0; }},
  };
  for (const Case& each : cases) {
    AqlTester t;
    t.signal(0).value = 1;
    aql::KernelDispatch packet = kernel(t, 0, t.signal_va(0));
    each.change(packet);
    t.put(packet);
    CHECK(t.step() == Queue::Progress::rests);
    CHECK(t.error() == static_cast<std::uint32_t>(each.error) && submitted().empty() && t.signal(0).value == 1);
    t.put(kernel(t));  // the queue is dead
    t.step();
    CHECK(submitted().empty() && t.read_index() == 0);
  }
}

void unknown_packets_stop_the_queue() {
  for (unsigned type = 0; type < 256; ++type) {
    if (type == 1 || type == k_kernel || type == k_barrier_and || type == k_barrier_or) continue;
    AqlTester t;
    aql::Barrier packet{};
    packet.header = static_cast<std::uint16_t>(type);
    t.put(packet);
    CHECK(t.step() == Queue::Progress::rests);
    const auto wanted = type == k_vendor ? aql::QueueError::invalid_vendor_packet : aql::QueueError::invalid_packet;
    CHECK(t.error() == static_cast<std::uint32_t>(wanted));
  }
  static_assert(k_agent == 4);  // agent dispatches are among them: a GPU queue cannot run them
}

void kernels_that_fail_raise_their_error() {
  struct Case {
    FaultKind kind;
    aql::QueueError error;
  };
  constexpr Case k_cases[] = {{FaultKind::lds_out_of_range, aql::QueueError::aperture_violation},
                              {FaultKind::misaligned_address, aql::QueueError::aperture_violation},
                              {FaultKind::trap, aql::QueueError::trap},
                              {FaultKind::bad_descriptor, aql::QueueError::invalid_code},
                              {FaultKind::unknown_instruction, aql::QueueError::illegal_instruction}};
  for (const Case& each : k_cases) {
    AqlTester t;
    t.signal(0).value = 1;
    t.put(kernel(t, 0, t.signal_va(0)));
    t.step();
    DispatchOutcome outcome;
    outcome.fault.kind = each.kind;
    end(0, outcome);
    CHECK(t.error() == static_cast<std::uint32_t>(each.error) && t.signal(0).value == 1);
  }
  AqlTester t;
  t.put(kernel(t));
  t.step();
  DispatchOutcome outcome;
  outcome.fault.kind = FaultKind::unmapped_address;
  outcome.fault.address = 0xABCD000;
  end(0, outcome);
  std::uint64_t address = 0;
  bool read_only = false;
  CHECK(t.took_memory_fault(address, read_only) && address == 0xABCD000 && !read_only && t.error() == 0);
}

void signals_out_of_memory_are_memory_faults() {
  AqlTester t;
  t.put(barrier(k_barrier_and, {0x123456789000}, 0));
  t.step();
  std::uint64_t address = 0;
  bool read_only = false;
  CHECK(t.took_memory_fault(address, read_only) && address == 0x123456789000 + offsetof(aql::Signal, value));
  AqlTester u;
  u.put(barrier(k_barrier_and, {}, u.signal_va(0) + 4));  // misaligned
  u.step();
  CHECK(u.took_memory_fault());
}

void stopping_takes_running_kernels_away() {
  AqlTester t;
  t.signal(0).value = 1;
  t.put(kernel(t, 0, t.signal_va(0)));
  t.step();
  CHECK(submitted().size() == 1);
  t.queue->stop();
  CHECK(submitted().empty() && t.signal(0).value == 1);
}

}  // namespace

int main() {
  packets_retire_in_order();
  barrier_bit_waits_for_all_before();
  barriers_wait_for_their_dependencies();
  barrier_value_knows_four_conditions();
  announced_but_unwritten_packets_are_waited_for();
  a_ring_that_an_older_one_wrote_over_is_no_packet_lost();
  a_place_that_is_only_reserved_is_not_taken_for_a_packet();
  what_waits_for_memory_behind_a_kernel_is_looked_at();
  the_ring_goes_round();
  a_dispatch_has_all_of_its_packet();
  time_stamps_only_where_profiling_is_on();
  scratch_is_asked_for_and_awaited();
  impossible_dispatches_are_refused();
  unknown_packets_stop_the_queue();
  kernels_that_fail_raise_their_error();
  signals_out_of_memory_are_memory_faults();
  stopping_takes_running_kernels_away();
  return test::exit_code();
}
