// Copies into slots, over a channel and a device that only write down what they are asked.
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../check.hpp"
#include "capture/slot_pipeline.hpp"

using namespace kerncap::capture;
using kerncap::core::Error;
using kerncap::core::ErrorCode;
using kerncap::core::Result;

namespace {

constexpr Limit k_limit{20};

// Slots of four bytes. Each is free again as soon as `takes` says that the collector takes data.
struct StubChannel {
  explicit StubChannel(std::uint32_t slots) : count(slots), memory(slots) {
    for (std::uint32_t i = 0; i < slots; ++i) free_slots.insert(i);
  }
  std::optional<std::uint32_t> acquire_slot(Clock::time_point deadline) {
    longest_wait = std::max(longest_wait, std::chrono::duration_cast<Limit>(deadline - Clock::now()));
    if (free_slots.empty()) return std::nullopt;
    const std::uint32_t slot = *free_slots.begin();
    free_slots.erase(slot);
    return slot;
  }
  void release_unsent_slot(std::uint32_t slot) {
    CHECK(free_slots.insert(slot).second);
    said += "unsent ";
  }
  std::uint32_t slot_count() const { return count; }
  std::size_t slot_bytes() const { return 4; }
  std::span<std::byte> slot(std::uint32_t index) { return memory[index]; }
  bool connected() const { return alive; }
  bool send(const messages::Data& data) {
    for (std::uint32_t i = 0; i < data.size_bytes; ++i) bytes[data.stream] += static_cast<char>(memory[data.slot][i]);
    said += "data" + std::to_string(data.stream) + " ";
    if (takes) free_slots.insert(data.slot);
    return alive;
  }
  bool send(const messages::Close& close) { return said += "close" + std::to_string(close.stream) + " ", alive; }

  std::uint32_t count;
  std::vector<std::array<std::byte, 4>> memory;
  std::set<std::uint32_t> free_slots;
  std::map<std::uint32_t, std::string> bytes;
  std::string said;
  Limit longest_wait{0};
  bool takes = true;
  bool alive = true;
};

// A copy has ended when it is waited for, not before.
struct StubCopier final : SlotCopier {
  explicit StubCopier(StubChannel& to) : channel(to) {}
  Result<void> begin(std::uint32_t slot, std::uint64_t from, std::size_t bytes) noexcept override {
    if (begun++ == fails_to_begin) return Error{ErrorCode::device, "cannot begin"};
    under_way[slot] = {from, bytes};
    most_under_way = std::max(most_under_way, under_way.size());
    return {};
  }
  Result<void> wait(std::uint32_t slot, Limit limit) noexcept override {
    CHECK(limit == k_limit && under_way.contains(slot));
    const int which = ended++;
    if (which == hangs) return --ended, Error{ErrorCode::timeout, "hangs"};
    const auto [from, bytes] = under_way[slot];
    under_way.erase(slot);
    if (which == fails) return Error{ErrorCode::device, "failed"};
    for (std::size_t i = 0; i < bytes; ++i) channel.slot(slot)[i] = static_cast<std::byte>('a' + (from + i) % 26);
    return {};
  }

  StubChannel& channel;
  std::map<std::uint32_t, std::pair<std::uint64_t, std::size_t>> under_way;
  std::size_t most_under_way = 0;
  int begun = 0;
  int ended = 0;
  int fails_to_begin = -1;
  int fails = -1;
  int hangs = -1;
};

struct Rig {
  explicit Rig(std::uint32_t slots) : channel(slots), copier(channel), pipeline(channel) {}
  Result<void> send(std::uint32_t stream, std::uint64_t from, std::uint64_t bytes, const Look* look = nullptr) {
    Result<void> sent = pipeline.send(copier, stream, from, bytes, k_limit, look);
    if (sent) pipeline.close(stream);
    return sent;
  }
  StubChannel channel;
  StubCopier copier;
  BasicSlotPipeline<StubChannel> pipeline;
};

void bytes_come_in_order_whatever_the_number_of_slots() {
  for (const std::uint32_t slots : {1u, 2u, 3u, 8u}) {
    Rig rig(slots);
    CHECK(rig.send(1, 0, 10).ok());
    CHECK(rig.send(2, 5, 4).ok());
    CHECK(rig.pipeline.flush(k_limit).ok() && rig.pipeline.is_empty());
    CHECK(rig.channel.bytes[1] == "abcdefghij" && rig.channel.bytes[2] == "fghi");
    CHECK(rig.channel.said == "data1 data1 data1 close1 data2 close2 ");
    CHECK(rig.copier.most_under_way == std::max(1u, std::min(slots - 1, 4u)));
    CHECK(rig.channel.free_slots.size() == slots);
  }
}

void a_stream_of_nothing_is_closed() {
  Rig rig(3);
  CHECK(rig.send(1, 0, 4).ok() && rig.send(2, 0, 0).ok());
  CHECK(rig.pipeline.flush(k_limit).ok());
  CHECK(rig.channel.said == "close2 data1 close1 ");
}

void who_looks_sees_the_bytes_first() {
  Rig rig(2);
  std::string seen;
  const Look look = [&](std::span<const std::byte> bytes) {
    CHECK(rig.channel.bytes[1].size() == seen.size());
    for (const std::byte byte : bytes) seen += static_cast<char>(byte);
  };
  CHECK(rig.send(1, 0, 7, &look).ok() && rig.pipeline.flush(k_limit).ok());
  CHECK(seen == "abcdefg");
}

// It is waited for only where nothing of ours is under way.
void a_collector_that_takes_nothing_ends_it() {
  Rig rig(3);
  rig.channel.takes = false;
  const Result<void> sent = rig.send(1, 0, 100);
  CHECK(!sent && sent.error().code == ErrorCode::stalled && sent.error().message == "the collector took no more data");
  CHECK(rig.channel.bytes[1].size() == 12 && rig.pipeline.is_empty());
  CHECK(rig.channel.longest_wait <= k_limit && rig.channel.longest_wait > k_limit / 2);
}

void a_collector_that_is_gone_ends_it() {
  Rig rig(3);
  CHECK(rig.send(1, 0, 8).ok());
  rig.channel.alive = rig.channel.takes = false;
  const Result<void> flushed = rig.pipeline.flush(k_limit);
  CHECK(!flushed && flushed.error().message == "the collector is gone");
  CHECK(rig.pipeline.is_empty());   // no copy is left behind
  rig.channel.free_slots.clear();
  const Result<void> sent = rig.send(2, 0, 4);
  CHECK(!sent && sent.error().message == "the collector is gone");
}

void a_copy_that_cannot_begin_gives_its_slot_back() {
  Rig rig(4);
  rig.copier.fails_to_begin = 1;
  CHECK(rig.send(1, 0, 12).error().message == "cannot begin");
  CHECK(rig.pipeline.flush(k_limit).ok());
  CHECK(rig.channel.said == "unsent data1 " && rig.channel.free_slots.size() == 4);
}

// So do those behind it, of a stream that lacks a part.
void a_copy_that_fails_gives_its_slot_back() {
  Rig rig(4);
  rig.copier.fails = 1;
  CHECK(rig.send(1, 0, 12).ok());
  CHECK(rig.pipeline.flush(k_limit).error().message == "failed");
  CHECK(rig.channel.said == "data1 unsent unsent " && rig.channel.free_slots.size() == 4);
}

// The device may still write to its slot, which nobody else gets.
void a_copy_that_hangs_keeps_its_slot() {
  Rig rig(4);
  rig.copier.hangs = 1;
  CHECK(rig.send(1, 0, 12).ok());
  CHECK(rig.pipeline.flush(k_limit).error().message == "hangs");
  CHECK(!rig.pipeline.is_empty() && rig.channel.free_slots.size() == 2);
  rig.copier.hangs = -1;
  CHECK(rig.pipeline.flush(k_limit).ok() && rig.pipeline.is_empty());
  CHECK(rig.channel.bytes[1] == "abcdefghijkl");
}

}  // namespace

int main() {
  bytes_come_in_order_whatever_the_number_of_slots();
  a_stream_of_nothing_is_closed();
  who_looks_sees_the_bytes_first();
  a_collector_that_takes_nothing_ends_it();
  a_collector_that_is_gone_ends_it();
  a_copy_that_cannot_begin_gives_its_slot_back();
  a_copy_that_fails_gives_its_slot_back();
  a_copy_that_hangs_keeps_its_slot();
  return kerncap::test::exit_code();
}
