// The restore, with a driver whose device is an array: each chunk lands where it belongs, by the way that the driver
// offers, and what is damaged stops it.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../check.hpp"
#include "../core/scratch_store.hpp"
#include "core/transaction.hpp"
#include "replay/restore.hpp"
#include "stub_driver.hpp"

using namespace kerncap;
using replay::ByteRange;
using replay::Region;

namespace {

constexpr std::uint64_t k_base = 0x7000'0000;
constexpr std::size_t k_buffers = 8;
constexpr std::size_t k_chunks = 60;  // more than there are buffers
constexpr std::size_t k_tail_bytes = 12345;
constexpr std::size_t k_bytes = k_chunks * core::k_chunk_bytes + k_tail_bytes;

// Stale everywhere, so that what is not written shows.
class ArrayDriver final : public test::StubDriver {
 public:
  explicit ArrayDriver(std::size_t bytes)
      : StubDriver({k_buffers, core::k_chunk_bytes}), memory(bytes, std::byte{0xEE}) {}

  InPlace in_place(std::uint64_t address, std::uint64_t bytes) const override {
    if (address < in_place_begin || address + bytes > in_place_end) return {};
    return {const_cast<std::byte*>(&memory[address - k_base]), in_place_is_zero};
  }
  core::Result<std::byte*> staging(std::size_t buffer) override { return buffers[buffer].data(); }
  core::Result<void> send(std::size_t buffer, const Region&, std::uint64_t address, std::uint64_t bytes) override {
    std::memcpy(&memory[address - k_base], buffers[buffer].data(), bytes);
    std::fill(buffers[buffer].begin(), buffers[buffer].end(), std::byte{0xDD});
    ++sent;
    return {};
  }
  core::Result<void> clear(const Region&, std::uint64_t address, std::uint64_t bytes) override {
    std::memset(&memory[address - k_base], 0, bytes);
    cleared.push_back({address - k_base, bytes});
    return {};
  }

  std::vector<std::byte> memory;
  std::vector<std::vector<std::byte>> buffers{k_buffers, std::vector<std::byte>(core::k_chunk_bytes)};
  std::uint64_t in_place_begin = 0;
  std::uint64_t in_place_end = 0;
  bool in_place_is_zero = false;
  std::size_t sent = 0;
  std::vector<ByteRange> cleared;
};

// Noise and what compresses in turn; chunks 3, 10, 11, 12 and 50 are zero.
test::Bytes content() {
  test::Bytes bytes = test::random_bytes(k_bytes);
  for (std::size_t chunk = 1; chunk < k_chunks; chunk += 2) {
    std::memset(&bytes[chunk * core::k_chunk_bytes], static_cast<int>(chunk), core::k_chunk_bytes);
  }
  for (const std::size_t zero : {3, 10, 11, 12, 50}) {
    std::memset(&bytes[zero * core::k_chunk_bytes], 0, core::k_chunk_bytes);
  }
  return bytes;
}

struct Fixture {
  explicit Fixture(const test::Bytes& bytes) {
    auto transaction = core::Transaction::begin(scratch.open());
    core::ChunkDigests digests;
    CHECK(transaction.value()->put_chunks(bytes, digests).ok());
    CHECK(transaction.value()->publish({}).ok());
    replay::Memory& memory = plan.memories["state"];
    memory.bytes = bytes.size();
    memory.chunk_bytes = core::k_chunk_bytes;
    for (const auto& digest : digests) memory.chunks.push_back(digest ? digest->hex() : "");
    Region region;
    region.base = k_base;
    region.bytes = bytes.size();
    region.pre = &memory;
    plan.regions.push_back(region);
  }
  core::Result<std::uint64_t> restore(replay::Driver& driver, bool verify = true) {
    replay::Progress untold("");
    return replay::restore_regions(plan, scratch.open(), driver, verify, untold,
                                   [this](const Region&, std::span<const std::byte> data) { seen += data.size(); });
  }

  test::ScratchStore scratch;
  replay::Plan plan;
  std::size_t seen = 0;
};

void everything_lands_where_it_belongs() {
  const test::Bytes bytes = content();
  Fixture fixture(bytes);
  ArrayDriver driver(bytes.size());
  const auto restored = fixture.restore(driver);
  CHECK(restored.ok() && restored.value() == bytes.size());
  CHECK(driver.memory == bytes);
  CHECK(fixture.seen == bytes.size() - 5 * core::k_chunk_bytes);
  CHECK(driver.sent == k_chunks + 1 - 5);
  // Zeros do not come through buffers; those next to each other in one piece.
  CHECK(driver.cleared.size() == 3);
  CHECK(driver.cleared[1].offset == 10 * core::k_chunk_bytes && driver.cleared[1].bytes == 3 * core::k_chunk_bytes);
}

void a_few_zeros_are_sent_like_other_bytes() {
  const test::Bytes bytes(4096);
  Fixture fixture(bytes);
  ArrayDriver driver(bytes.size());
  CHECK(fixture.restore(driver).ok());
  CHECK(driver.memory == bytes);
  CHECK(driver.sent == 1 && driver.cleared.empty());
}

void memory_of_the_processor_is_filled_in_place() {
  const test::Bytes bytes = content();
  Fixture fixture(bytes);
  ArrayDriver driver(bytes.size());
  driver.in_place_begin = k_base + 5 * core::k_chunk_bytes;
  driver.in_place_end = k_base + bytes.size();
  CHECK(fixture.restore(driver).ok());
  CHECK(driver.memory == bytes);
  CHECK(driver.sent == 4 && driver.cleared.size() == 1);
}

void zeros_are_not_written_where_there_are_zeros() {
  const test::Bytes bytes = content();
  Fixture fixture(bytes);
  ArrayDriver driver(bytes.size());
  driver.in_place_begin = k_base;
  driver.in_place_end = k_base + bytes.size();
  driver.in_place_is_zero = true;
  CHECK(fixture.restore(driver).ok());
  CHECK(driver.memory[3 * core::k_chunk_bytes] == std::byte{0xEE});
  CHECK(driver.memory[4 * core::k_chunk_bytes] == bytes[4 * core::k_chunk_bytes]);
}

void damage_ends_it_unless_it_was_verified_before() {
  const test::Bytes bytes = content();
  Fixture fixture(bytes);
  const std::string& victim = fixture.plan.memories["state"].chunks[40];  // of noise: a frame of raw blocks
  const std::filesystem::path path = fixture.scratch.file(*core::Digest::from_hex(victim));
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(5000).write("\xA5\x5A\xA5\x5A", 4);
  CHECK(file.flush().good());
  for (const bool in_place : {false, true}) {
    ArrayDriver driver(bytes.size());
    driver.in_place_begin = in_place ? k_base : 0;
    driver.in_place_end = in_place ? k_base + bytes.size() : 0;
    const auto restored = fixture.restore(driver);
    CHECK(!restored.ok());
    if (!restored.ok()) {
      CHECK(restored.error().code == core::ErrorCode::damaged);
      CHECK(restored.error().message.find(victim) != std::string::npos);
    }
    CHECK(fixture.restore(driver, false).ok());
    fixture.plan.memories["state"].is_verified = true;
    CHECK(fixture.restore(driver).ok());
    fixture.plan.memories["state"].is_verified = false;
  }
}

void small_parts_are_written_by_the_same_ways() {
  ArrayDriver driver(8 * core::k_chunk_bytes);
  const std::vector<std::byte> data(3 * core::k_chunk_bytes + 7, std::byte{0x42});
  driver.in_place_begin = k_base + 2 * core::k_chunk_bytes;
  driver.in_place_end = k_base + 8 * core::k_chunk_bytes;
  CHECK(driver.write(Region{}, k_base + 100, data).ok());
  CHECK(driver.memory[99] == std::byte{0xEE});
  CHECK(std::equal(data.begin(), data.end(), &driver.memory[100]));
  CHECK(driver.memory[100 + data.size()] == std::byte{0xEE});
}

}  // namespace

int main() {
  everything_lands_where_it_belongs();
  a_few_zeros_are_sent_like_other_bytes();
  memory_of_the_processor_is_filled_in_place();
  zeros_are_not_written_where_there_are_zeros();
  damage_ends_it_unless_it_was_verified_before();
  small_parts_are_written_by_the_same_ways();
  return test::exit_code();
}
