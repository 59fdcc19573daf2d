// Further runs from the same state, on a device that is two chunks of this process.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../check.hpp"
#include "../core/scratch_store.hpp"
#include "one_region.hpp"
#include "replay/engine.hpp"
#include "stub_driver.hpp"

using namespace kerncap;

namespace {

constexpr std::uint64_t k_long_ms = 60'000;
constexpr std::uint64_t k_base = 0x1000;
constexpr std::uint64_t k_outside = 0x900000;   // written, and no region's, says the device that compares
constexpr std::size_t k_words = 2 * core::k_chunk_bytes / sizeof(std::uint32_t);

// Its kernel counts up the first word, and every so-manieth launch the first of the second chunk as well.
class Device final : public test::SavingDriver, private replay::Watch {
 public:
  Device(std::uint32_t odd_each, bool compares) : SavingDriver(k_base, k_words), m_odd_each(odd_each), m_compares(compares) {}
  core::Result<replay::Timing> launch(replay::Code&, const replay::Launch&) override {
    ++launches;
    ++m_memory[0];
    if (launches % m_odd_each == 0) ++m_memory[k_words / 2];
    return replay::Timing{};
  }
  replay::Watch* watch() override { return m_compares ? this : nullptr; }

  std::uint32_t launches = 0;

 private:
  core::Result<std::vector<const replay::Region*>> remember(const std::vector<const replay::Region*>& regions) override {
    m_remembered = m_memory;
    return regions;
  }
  core::Result<std::vector<replay::AddressRange>> written_outside() override {
    return std::vector{replay::AddressRange{k_outside, 4}};
  }
  core::Result<std::vector<std::uint32_t>> changed(std::uint64_t chunk_bytes) override {
    std::vector<std::uint32_t> words;
    for (std::size_t at = 0; at < k_words * sizeof(std::uint32_t); at += chunk_bytes) {
      const std::size_t word = at / sizeof(std::uint32_t);
      words.push_back(std::memcmp(&m_memory[word], &m_remembered[word], chunk_bytes) != 0);
    }
    return words;
  }

  std::uint32_t m_odd_each;
  bool m_compares;
  std::vector<std::uint32_t> m_remembered;
};

replay::Options repeating(std::uint64_t times) {
  replay::Options options;
  options.repeats = times;
  options.repeat_ms = k_long_ms;
  return options;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

replay::Outcome run(Device& device, replay::Options options, const std::filesystem::path& folder) {
  test::OneRegion region(k_base, k_words);
  std::filesystem::create_directories(folder);
  options.compare = false;
  options.changes_only = true;
  options.dump_folder = folder.string();
  return region.run(options, device);
}

void runs_that_leave_something_else_are_counted_and_dumped(bool compares) {
  const test::ScratchStore scratch;
  Device device(3, compares);
  replay::Options options = repeating(8);
  options.keep_differing = 2;
  options.restore_all = true;
  const replay::Outcome outcome = run(device, options, scratch.path() / "out");
  CHECK(device.launches == 9);
  CHECK(outcome.repeats == 8 && outcome.repeats_differing == 3);
  CHECK(device.saved_bytes == k_words * sizeof(std::uint32_t));
  const std::filesystem::path out = scratch.path() / "out";
  CHECK(text_of(out / "changes.list") == "4096 2097152 0 0\n");
  // Only the chunk that differs from the first run's: the first is counted up from the same state each time.
  CHECK(text_of(out / "differing_1/changes.list") == "4096 2097152 0 1\n");
  CHECK(std::filesystem::exists(out / "differing_2") && !std::filesystem::exists(out / "differing_3"));
}

void steady_runs_leave_no_more_than_the_first(bool compares) {
  const test::ScratchStore scratch;
  Device device(1000, compares);
  const replay::Outcome outcome = run(device, repeating(4), scratch.path() / "out");
  CHECK(outcome.repeats == 4 && outcome.repeats_differing == 0 && outcome.ran_once.empty());
  CHECK(outcome.outside.size() == (compares ? 1 : 0));
  CHECK(!compares || outcome.notes.front() == "the kernel writes outside of all captured memory, first at 0x900000");
  CHECK(device.saved_bytes == sizeof(std::uint32_t));
  CHECK(!std::filesystem::exists(scratch.path() / "out/differing_1"));
}

void without_room_there_is_one_run_and_a_reason() {
  const test::ScratchStore scratch;
  Device device(1, false);
  device.has_room = false;
  const replay::Outcome outcome = run(device, repeating(4), scratch.path() / "out");
  CHECK(device.launches == 1 && outcome.repeats == 0 && outcome.ran_once == "no room");
}

void time_that_is_over_leaves_one_further_run() {
  const test::ScratchStore scratch;
  Device device(1000, false);
  replay::Options options;
  options.repeats = 1000;
  options.repeat_ms = 0;
  CHECK(run(device, options, scratch.path() / "out").repeats == 1);
}

}  // namespace

int main() {
  for (const bool compares : {false, true}) {
    runs_that_leave_something_else_are_counted_and_dumped(compares);
    steady_runs_leave_no_more_than_the_first(compares);
  }
  without_room_there_is_one_run_and_a_reason();
  time_that_is_over_leaves_one_further_run();
  return test::exit_code();
}
