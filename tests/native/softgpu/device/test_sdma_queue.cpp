// The copy engine's packets, dword by dword.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.hpp"
#include "queue_harness.hpp"
#include "softgpu/device/clock.hpp"
#include "softgpu/memory/host_guard.hpp"

using namespace kerncap::softgpu;
using namespace kerncap::softgpu::test;

namespace {

constexpr std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

constexpr std::size_t k_from = k_data_at, k_to = k_data_at + (std::size_t{3} << 20);

void fill_source(const SdmaTester& t, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) t.memory.at<std::uint8_t>(k_from)[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
}

void put_copy(SdmaTester& t, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  t.put({1, low(bytes - 1), 0, low(from), high(from), low(to), high(to)});
}

void linear_copies_of_any_size_and_alignment() {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{3}, std::size_t{4096}, (std::size_t{2} << 20) + 13}) {
    SdmaTester t;
    fill_source(t, bytes + 1);
    put_copy(t, t.memory.va(k_to + 5), t.memory.va(k_from + 1), bytes);
    t.step();
    CHECK(t.is_empty());
    CHECK(std::memcmp(t.memory.at(k_to + 5), t.memory.at(k_from + 1), bytes) == 0);
    CHECK(t.memory.at<std::uint8_t>(k_to)[4] == 0 && t.memory.at<std::uint8_t>(k_to)[5 + bytes] == 0);
  }
}

void large_copies_share_the_engine() {
  SdmaTester t;
  put_copy(t, t.memory.va(k_to), t.memory.va(k_from), std::size_t{2} << 20);
  CHECK(t.queue->step() == Queue::Progress::worked && !t.is_empty());  // one piece, and then somebody else's turn
  t.step();
  CHECK(t.is_empty());
}

struct Box {
  std::uint32_t x, y, z, pitch, slice;
};

void rectangles_with_pitch_and_slice() {
  for (unsigned shift = 0; shift < 5; ++shift) {
    SdmaTester t;
    fill_source(t, 1 << 20);
    const Box from{3, 2, 1, 40, 40 * 20}, to{1, 4, 2, 24, 24 * 16};  // in elements
    const std::uint32_t width = 17, height = 9, depth = 5;
    const std::uint64_t source = t.memory.va(k_from), target = t.memory.va(k_to);
    t.put({1U | 4U << 8 | shift << 29,
           low(source), high(source), from.x | from.y << 16, from.z | (from.pitch - 1) << 13, from.slice - 1,
           low(target), high(target), to.x | to.y << 16, to.z | (to.pitch - 1) << 13, to.slice - 1,
           (width - 1) | (height - 1) << 16, depth - 1});
    t.step();
    CHECK(t.is_empty());
    std::vector<std::uint8_t> wanted(std::size_t{1} << 20);
    const auto at = [&](const Box& box, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
      return std::size_t{box.x + x + (box.y + y) * box.pitch + (box.z + z) * box.slice} << shift;
    };
    for (std::uint32_t z = 0; z < depth; ++z)
      for (std::uint32_t y = 0; y < height; ++y)
        for (std::uint32_t x = 0; x < width; ++x)
          std::memcpy(&wanted[at(to, x, y, z)], t.memory.at(k_from + at(from, x, y, z)), std::size_t{1} << shift);
    CHECK(std::memcmp(t.memory.at(k_to), wanted.data(), wanted.size()) == 0);
  }
}

void fills_by_byte_and_by_dword() {
  SdmaTester t;
  const std::uint64_t to = t.memory.va(k_to);
  t.put({11U | 2U << 30, low(to), high(to), 0x12345678, 4 * 1000 - 4});
  t.put({11U, low(to + 8000), high(to), 0xAB, 7 - 1});
  t.step();
  CHECK(t.is_empty());
  for (unsigned i = 0; i < 1000; ++i) CHECK(t.memory.at<std::uint32_t>(k_to)[i] == 0x12345678);
  CHECK(t.memory.at<std::uint32_t>(k_to)[1000] == 0);
  for (unsigned i = 0; i < 8; ++i) CHECK(t.memory.at<std::uint8_t>(k_to + 8000)[i] == (i < 7 ? 0xAB : 0));
}

void polls_compare_under_a_mask() {
  struct Case {
    std::uint32_t function, reference, unmet, met;
  };
  constexpr Case k_cases[] = {{1, 5, 5, 4}, {2, 5, 6, 5}, {3, 5, 4, 5}, {4, 5, 5, 6}, {5, 5, 4, 5}, {6, 5, 5, 6}};
  for (const Case& each : k_cases) {
    SdmaTester t;
    auto& word = *t.memory.at<std::uint32_t>(k_data_at);
    const std::uint64_t va = t.memory.va(k_data_at);
    word = each.unmet | 0xF00;  // masked away
    t.put({8U | each.function << 28 | 1U << 31, low(va), high(va), each.reference, 0xFF, 0});
    CHECK(t.step() == Queue::Progress::polls && !t.is_empty());
    word = each.met | 0xF00;
    t.step();
    CHECK(t.is_empty());
  }
  SdmaTester t;
  t.put({8U, 0, 0, 0, 0, 0});  // of a register: there is none to wait for
  t.put({8U | 1U << 31, low(t.memory.va(k_data_at)), high(t.memory.va(k_data_at)), 9, 0, 0});  // "always"
  t.step();
  CHECK(t.is_empty());
}

void fence_add_time_stamp_and_trap() {
  SdmaTester t;
  const std::uint64_t va = t.memory.va(k_data_at);
  const auto event = t.events.create(KFD_IOC_EVENT_SIGNAL, true).id;
  *t.memory.at<std::int64_t>(k_data_at + 16) = 1;
  const std::uint64_t before = gpu_ticks();
  t.put({5, low(va), high(va), 77});
  t.put({10U | 47U << 25, low(va + 16), high(va), ~0U, ~0U, 0, 0, 0});  // adds -1
  t.put({13U | 2U << 8, low(va + 32), high(va)});
  t.put({6, event});
  t.put({17, 0, 0, 0, 0});
  t.step();
  CHECK(t.is_empty());
  CHECK(*t.memory.at<std::uint32_t>(k_data_at) == 77 && *t.memory.at<std::int64_t>(k_data_at + 16) == 0);
  CHECK(*t.memory.at<std::uint64_t>(k_data_at + 32) >= before && *t.memory.at<std::uint64_t>(k_data_at + 32) <= gpu_ticks());
  kfd_event_data data{};
  data.event_id = event;
  CHECK(t.events.wait({&data, 1}, true, 0) == KFD_IOC_WAIT_RESULT_COMPLETE);
}

void padding_and_the_ring_s_end() {
  SdmaTester t(1024);
  const std::uint64_t va = t.memory.va(k_data_at);
  t.put({0U | 2U << 16, 0xDEAD, 0xBEEF});  // a no-operation with two dwords of whatever
  for (int i = 0; i < 246; ++i) t.put({0});
  t.step();
  CHECK(t.is_empty());
  t.put({5, low(va), high(va), 1});
  t.put({5, low(va), high(va), 2});   // the last dwords of the ring, and
  t.put({5, low(va), high(va), 3});   // around its end
  t.step();
  CHECK(t.is_empty() && *t.memory.at<std::uint32_t>(k_data_at) == 3);
  for (int i = 0; i < 300; ++i) {
    t.put({5, low(va + 4), high(va), static_cast<std::uint32_t>(i)});
    t.step();
  }
  CHECK(t.is_empty() && *t.memory.at<std::uint32_t>(k_data_at + 4) == 299);
}

void unknown_packets_are_hardware_exceptions() {
  constexpr std::uint32_t k_headers[] = {2, 3, 0xFF, 11U | 3U << 30, 1 | 1 << 8, 1 | 9 << 8, 10U | 1U << 25, 13, 8U | 7U << 28 | 1U << 31};
  for (const std::uint32_t header : k_headers) {
    SdmaTester t;
    t.put({header, low(t.memory.va(k_data_at)), high(t.memory.va(k_data_at)), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
    CHECK(t.step() == Queue::Progress::rests && t.took_hardware_exception());
    t.put({0});
    CHECK(t.step() == Queue::Progress::rests && !t.is_empty());  // dead
  }
  SdmaTester cut;
  cut.put({1, 15, 0});  // the write index ends within the packet
  CHECK(cut.step() == Queue::Progress::rests && cut.took_hardware_exception());
  SdmaTester beyond;
  beyond.ring(1 << 20);  // more than the ring holds
  CHECK(beyond.step() == Queue::Progress::rests && beyond.took_hardware_exception());
  SdmaTester longer;
  longer.put({0U | 100U << 16});
  CHECK(longer.step() == Queue::Progress::rests && longer.took_hardware_exception());
}

void stray_accesses_are_memory_faults() {
  std::uint64_t address = 0;
  bool read_only = false;
  SdmaTester t;
  put_copy(t, t.memory.va(k_to), t.memory.va(k_memory_bytes - 4096), 8192);
  t.step();
  CHECK(t.took_memory_fault(address, read_only) && address == t.memory.va(k_memory_bytes) && !read_only);
  SdmaTester u;
  u.gpu.space.map({u.memory.va(k_to), u.memory.va(k_to) + 4096, 0, Rights::read});
  put_copy(u, u.memory.va(k_to), u.memory.va(k_from), 64);
  u.step();
  CHECK(u.took_memory_fault(address, read_only) && address == u.memory.va(k_to) && read_only);
  // Mapped for the GPU, gone on the host: no fault of ours.
  SdmaTester v;
  v.gpu.space.map({v.memory.va(k_memory_bytes), v.memory.va(k_memory_bytes) + 4096, 0, Rights::all});
  v.put({5, low(v.memory.va(k_memory_bytes)), high(v.memory.va(k_memory_bytes)), 1});
  v.step();
  CHECK(v.took_memory_fault(address, read_only) && address == v.memory.va(k_memory_bytes));
}

}  // namespace

int main() {
  HostGuard::install();
  linear_copies_of_any_size_and_alignment();
  large_copies_share_the_engine();
  rectangles_with_pitch_and_slice();
  fills_by_byte_and_by_dword();
  polls_compare_under_a_mask();
  fence_add_time_stamp_and_trap();
  padding_and_the_ring_s_end();
  unknown_packets_are_hardware_exceptions();
  stray_accesses_are_memory_faults();
  return test::exit_code();
}
